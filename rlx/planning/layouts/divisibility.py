"""List the splits that a model and a batch allow: what Megatron, verl and vLLM assert, as reasons in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rlx.planning.memory import Job, Split
from rlx.planning.models.architectures import Architecture


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples a step, samples an optimiser update, samples a micro batch; the last is None with dynamic batches."""

    step: int
    update: int
    micro: int | None


def divisors(number: int) -> tuple[int, ...]:
    return tuple(size for size in range(1, number + 1) if number % size == 0)


def training_flaws(job: Job, batch: Batch) -> Iterator[str]:
    """List what keeps the training from being split like that. Nothing: it can."""
    split, shape = job.split, job.shape
    if job.is_megatron:
        yield from _tensor_flaws(shape, split.tp, "tp")
        yield from _needs("pp", split.pp, layers=shape.layers)
        if split.pp > 1 and job.whole_critic:
            yield f"pp {split.pp}: the critic reads a layer in the middle, and needs all of them on one stage"
        yield from _expert_flaws(shape, split)
    else:
        # Ulysses gives every device whole heads (arXiv:2309.14509).
        yield from _needs("cp", split.cp, heads=shape.heads)
        yield from _key_flaws(shape, split.cp, "cp")
    if split.is_whole:
        yield from _batch_flaws(split, batch)
    else:
        yield f"tp {split.tp} × pp {split.pp} × cp {split.cp} × ep {split.ep} does not divide {split.devices} devices"


def rollout_flaws(shape: Architecture, devices: int, tp: int, ep: int) -> Iterator[str]:
    """List what keeps the generation from being split like that. vLLM copies key-value heads where they are too few."""
    yield from _needs("rollout tp", tp, devices=devices, heads=shape.heads)
    yield from _key_flaws(shape, tp, "rollout tp")
    if shape.experts is None:
        if ep > 1:
            yield f"rollout ep {ep}: the model has no experts"
    elif ep > 1:
        yield from _needs("rollout ep", ep, devices=devices, experts=shape.experts.count)
        if ep % tp:
            yield f"rollout ep {ep} is no multiple of rollout tp {tp}"
    else:
        yield from _needs("rollout tp", tp, **{"columns of an expert": shape.experts.hidden})


def _key_flaws(shape: Architecture, size: int, name: str) -> Iterator[str]:
    """Check key-value heads where too few are copied (vLLM; verl's Ulysses, models/transformers/monkey_patch.py)."""
    if shape.kv_heads % size and size % shape.kv_heads:
        yield f"{name} {size} neither divides {shape.kv_heads} key-value heads nor is a multiple of them"


def _tensor_flaws(shape: Architecture, tp: int, name: str) -> Iterator[str]:
    # Latent attention has no key-value heads of its own to divide.
    keys = {} if shape.latent else {"key-value heads": shape.kv_heads}
    widths = {"columns of the MLP": shape.mlp_hidden} if shape.dense_layers else {}
    yield from _needs(name, tp, heads=shape.heads, **keys, **widths)


def _expert_flaws(shape: Architecture, split: Split) -> Iterator[str]:
    if shape.experts is None:
        if split.ep > 1:
            yield f"ep {split.ep}: the model has no experts"
        return
    yield from _needs("ep", split.ep, experts=shape.experts.count)
    yield from _needs("tp", split.etp, **{"columns of an expert": shape.experts.hidden})


def _batch_flaws(split: Split, batch: Batch) -> Iterator[str]:
    name = f"{split.data} data parallel groups:"
    if batch.step % split.data or batch.update % split.data:
        yield f"{name} {batch.step} samples a step and {batch.update} an update do not divide by {split.data}"
    elif batch.micro and batch.update // split.data % batch.micro:
        each = batch.update // split.data
        yield f"{name} {each} samples of an update on each do not divide by the micro batch of {batch.micro}"


def _needs(name: str, size: int, **counts: int) -> Iterator[str]:
    """`tp 3 divides neither 32 heads nor 4 key-value heads`."""
    undivided = [f"{count} {what}" for what, count in counts.items() if count % size]
    if len(undivided) > 1:
        yield f"{name} {size} divides neither {', '.join(undivided[:-1])} nor {undivided[-1]}"
    elif undivided:
        yield f"{name} {size} does not divide {undivided[0]}"
