"""Change a recipe for its rehearsal, topic by topic, each change with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.verl.rehearsal.keys import VERSION
from rlx.backends.verl.rehearsal.scale import Batch
from rlx.backends.verl.trainers import DECLARED
from rlx.planning.rehearsal.twin import Change, Engine, Places, Untold

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

STEPS = 2
VAL_ROWS = 4
_ANSWER_TOKENS = 16
# Of the environment: what only accelerators read may stay; what names devices or starts Ray must not.
_DEVICE_VARIABLES = (
    "_VISIBLE_DEVICES",
    "RAY_",
    "VERL_PLATFORM",
    "VERL_USE_EXTERNAL_MODULES",
    "VERL_ENGINE_DEVICE",
    "VLLM_PLUGINS",
    "VLLM_ATTENTION_BACKEND",
)


def backend(recipe: Recipe, engine: Engine) -> Iterator[Change]:
    was = recipe.backend
    yield Change("backend.version", was.version, VERSION, "the verl that runs here")
    yield Change("backend.engine", was.engine, "fsdp2", "the engine that runs on a CPU")
    trainer = was.trainer if was.trainer != DECLARED else None
    yield Change("backend.trainer", was.trainer, trainer, "nobody knows how that program counts")
    for key in ("totals", "workdir", "entrypoint", "config_name", "key_source"):
        yield Change(f"backend.{key}", getattr(was, key), None, "stock verl, as it is installed here")
    yield Change("backend.python", was.python, engine.python, "the interpreter that has the rest")


def model(recipe: Recipe, places: Places, shown: str) -> Iterator[Change]:
    yield Change("model.path", recipe.model.path, places.model, shown)
    yield Change("model.arch", recipe.model.arch, None, "the tiny model's own config.json")
    yield Change("model.dtype", recipe.model.dtype, "float32", "what a CPU computes in")


def data(
    recipe: Recipe, places: Places, batch: Batch, prompt_tokens: int, sources: tuple[str, str]
) -> Iterator[Change]:
    was = recipe.data
    yield Change("data.train", was.train, places.train, sources[0])
    yield Change("data.val", was.val, places.val, sources[1])
    yield Change("data.train_rows", was.train_rows, STEPS * batch.batch, f"{STEPS} steps")
    yield Change("data.val_rows", was.val_rows, VAL_ROWS, "a few")
    yield Change("data.max_prompt_tokens", was.max_prompt_tokens, prompt_tokens, "the longest prompt in bytes")
    tokens = min(was.max_response_tokens, _ANSWER_TOKENS)
    yield Change("data.max_response_tokens", was.max_response_tokens, tokens, "a random model has nothing to say")


def batches(recipe: Recipe, whole: Batch, batch: Batch, factor: int) -> Iterator[Change]:
    divided = f"divided by {factor}"
    pieces = "as many passes over a device's samples as before, as far as they divide"
    yield Change("train.batch_size", whole.batch, batch.batch, divided)
    yield Change("train.mini_batch_size", whole.mini, batch.mini, divided)
    yield Change("train.micro_batch_size", whole.micro, batch.micro, pieces)
    yield Change("rollout.log_prob_micro_batch_size", whole.log_prob, batch.log_prob, pieces)
    was = recipe.train
    yield Change("train.steps", was.steps, STEPS, "the second one generates with what the first one taught")
    yield Change("train.epochs", was.epochs, 1, "the steps count")
    yield Change("train.save_every", was.save_every, STEPS if was.save_every else None, "one checkpoint, at the end")
    yield Change("eval.every", recipe.eval.every, STEPS if recipe.eval.every else None, "a validation at the end")
    yield Change("eval.post", _rows(recipe), None, "the validation at the end is rehearsed")


def rollout(recipe: Recipe, engine: Engine, devices: int) -> Iterator[Change]:
    was = recipe.rollout
    yield Change("rollout.engine", was.engine, engine.name, engine.shown)
    tp, why = (math.gcd(was.tp, devices), "as many ranks as there are") if engine.name == "vllm" else (1, "")
    yield Change("rollout.tp", was.tp, tp, why or "the CPU rollout splits nothing")
    yield Change("rollout.ep", was.ep, 1, "the CPU rollout splits nothing")


def layout(recipe: Recipe, batch: Batch) -> Iterator[Change]:
    was = recipe.layout
    yield Change("layout.device", was.device, "cpu", "this machine")
    yield Change("layout.nodes", was.nodes, 1, "this machine")
    yield Change("layout.devices_per_node", was.devices_per_node, batch.devices, "FSDP2 workers on this CPU, over gloo")
    for key in ("tp", "pp", "ep", "cp"):
        yield Change(f"layout.{key}", getattr(was, key), 1, "FSDP2 on a CPU splits parameters only")
    pools = dict(was.pools) if was.pools else None
    yield Change("layout.pools", pools, None, "all roles share the workers")


def rest(recipe: Recipe, secrets: tuple[str, ...]) -> Iterator[Change]:
    if recipe.aqn and recipe.aqn.provider == "builtin":
        yield Change("aqn", "the fork's own", None, "stock verl has no such noise")
    if recipe.track is not None:
        yield Change("track", list(recipe.track.to), None, "a rehearsal is nobody's run")
    yield Change("secrets", list(recipe.secrets), list(secrets), "those that are set here")
    env = {name: text for name, text in recipe.env.items() if not any(mark in name for mark in _DEVICE_VARIABLES)}
    yield Change("env", dict(recipe.env), env, "variables that name devices or start Ray are the rehearsal's own")


def _rows(recipe: Recipe) -> str | None:
    return recipe.eval.post.rows if recipe.eval.post else None


def untold(recipe: Recipe, engine: Engine) -> Iterator[Untold]:
    """Name what no CPU can rehearse."""
    layout, kind = recipe.layout, recipe.backend.engine
    if kind == "megatron":
        sizes = f"tp {layout.tp}, pp {layout.pp}, ep {layout.ep}, cp {layout.cp}"
        yield Untold(f"Megatron ({sizes})", "its kernels and its splits need accelerators; FSDP2 was rehearsed")
    elif layout.cp > 1:
        yield Untold(f"layout.cp {layout.cp}", "Ulysses needs attention without padding, which no CPU has")
    if layout.device == "npu":
        yield Untold("CANN and HCCL", "collectives went over gloo")
    elif layout.device == "cuda":
        yield Untold("CUDA and NCCL", "collectives went over gloo")
    if layout.device != "cpu":
        yield Untold("memory", "a tiny model fits anywhere; rlx plan estimates the real one")
        yield Untold(f"{recipe.model.dtype}", "float32 was rehearsed; small noise is rounded away in bfloat16 only")
    if recipe.aqn and recipe.aqn.provider == "builtin":
        yield Untold("aqn", "the fork's own noise; rlx's payload was not put in its place")
    if recipe.eval.post is not None:
        yield Untold("eval.post", "the checkpoint's conversion, and who answers and grades after the training")
    yield from _untold_of_rollout(recipe, engine)


def _untold_of_rollout(recipe: Recipe, engine: Engine) -> Iterator[Untold]:
    name = recipe.rollout.engine
    if name == "vllm" == engine.name:
        yield Untold("vllm on accelerators", "graphs, kernels, sleep mode, memory; its CPU build was rehearsed")
    elif name != "cpu":
        yield Untold(name, f"its engine, settings and weight loading; {engine.shown} stood in")
    if recipe.model.lora is not None and engine.name == "cpu":
        yield Untold("adapters sent by themselves", "the CPU rollout gets the merged weights")
