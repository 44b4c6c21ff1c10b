"""Rehearse a recipe for verl: the same one in small, for stock verl on this CPU."""

from __future__ import annotations

import copy
import importlib.util
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.backends.shared.vllm_cpu import HEAD_SIZES
from rlx.backends.verl.rehearsal.inputs import SCHEMA, VERSION, RecordedReward, fork_keys_untold, reward_of, translated
from rlx.backends.verl.rules.batch import LOG_MICRO, MICRO, MINI, SAMPLES
from rlx.backends.verl.rules.facts import BATCH, VerlFacts
from rlx.backends.verl.trainers import DECLARED
from rlx.errors import RlxError, UsageError
from rlx.installed import install_command
from rlx.model import Severity
from rlx.planning.rehearsal import Change, NotCovered, Places, Rehearsal, RehearsalEngine, Rows, rows_of
from rlx.planning.rules import check
from rlx.planning.rules.facts import facts_of
from rlx.planning.rules.number_text import divisors
from rlx.planning.tiny_shapes import TinyModel, tiny_model_of

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

PACKAGES = ("torch", "transformers", "ray", "transfer_queue", "pyarrow", "peft", "fastapi", "uvicorn", "cachetools")
"""What it imports, beside itself."""
NEEDED = ("verl", VERSION)
"""The package that rehearses, and its version."""
FIX = f"pip install torch==2.13.0 (a CPU build), then {install_command('verl-cpu')}"

__all__ = ["FIX", "NEEDED", "PACKAGES", "engine_for", "rehearsal_of"]


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
# Two workers shard the model and talk over gloo, as many would.
_DEVICES = 2
# Beside the environment of rlx, as `make engines` makes it.
_BESIDE = ".venv-engines/bin/python"
NAMES = ("cpu", "vllm")


def rehearsal_of(
    resolved: ResolvedRecipe, places: Places, secrets: tuple[str, ...], engine: RehearsalEngine
) -> Rehearsal:
    """Derive the recipe in small. `secrets`: those of its secrets that are set here.

    Raises UsageError for a critic, or a batch that cannot be scaled; RlxError for data that
    is here and cannot be read.
    """
    if resolved.recipe.algorithm.kind == "ppo":
        # verl 0.9.1, utils/model.py, load_valuehead_model: attn_implementation="flash_attention_2", whatever is set.
        message = "algorithm.kind ppo: verl loads a critic with flash attention only, which no CPU has"
        raise UsageError(message, "rehearse the rest of the recipe: --set algorithm.kind=grpo")
    facts = facts_of(resolved)
    assert isinstance(facts, VerlFacts)
    model = tiny_model_of(resolved, engine.head_dim)
    return _Maker(resolved, places, model, batch_of(facts), secrets, engine).smallest()


@dataclass(frozen=True)
class _Maker:
    resolved: ResolvedRecipe
    places: Places
    model: TinyModel
    whole: RehearsalBatch
    secrets: tuple[str, ...]
    engine: RehearsalEngine

    def smallest(self) -> Rehearsal:
        """Return the smallest batch's rehearsal that passes all rules."""
        complaint = ""
        for factor, batch in scaled(self.whole):
            made = self._twin(factor, batch, self._rows(batch))
            errors = [finding for finding in check(made.resolved) if finding.severity is Severity.ERROR]
            if not errors:
                return made
            complaint = complaint or f"{errors[0].id} {errors[0].message}"
        raise UsageError(f"no smaller batch keeps the rules: {complaint}", "rlx validate tells about the recipe itself")

    def _rows(self, batch: RehearsalBatch) -> Mapping[str, Rows]:
        counts = {"train": STEPS * batch.batch, "val": VAL_ROWS}
        return {role: rows_of(self.resolved.recipe.data, role, count, SCHEMA) for role, count in counts.items()}

    def _twin(self, factor: int, batch: RehearsalBatch, rows: Mapping[str, Rows]) -> Rehearsal:
        reward = reward_of(self.resolved.recipe, rows["train"].is_own)
        changes = tuple(self._changes(factor, batch, rows))
        document = _applied(self.resolved.document, changes)
        document |= {"reward": reward.section, "waive": {}}
        changed = {one.key for one in changes if one.recipe != one.rehearsed}
        kept, reported = translated(self._resolved(document), changed | reward.changed)
        document["overrides"] = dict(kept)
        shown = [one for one in (*changes, *reward.changes) if one.recipe != one.rehearsed]
        return Rehearsal(
            resolved=self._resolved(document),
            factor=factor,
            model=self.model,
            changes=(*shown, *(one for one in reported if isinstance(one, Change))),
            untold=tuple(self._untold(reward, reported)),
            files=reward.files,
            rows=rows,
            engine=self.engine,
        )

    def _changes(self, factor: int, batch: RehearsalBatch, rows: Mapping[str, Rows]) -> Iterator[Change]:
        recipe = self.resolved.recipe
        prompt = max(one.prompt_tokens(recipe.data.prompt_key) for one in rows.values())
        yield from _backend(recipe, self.engine)
        yield from _layout(recipe, batch)
        yield from _model(recipe, self.places, self.model.shown)
        yield from _data(recipe, self.places, batch, prompt, (rows["train"].said, rows["val"].said))
        yield from _batches(recipe, self.whole, batch, factor)
        yield from _rollout(recipe, self.engine, batch.devices)
        yield from _rest(recipe, self.secrets)

    def _untold(self, reward: RecordedReward, reported: Iterable[Change | NotCovered]) -> Iterator[NotCovered]:
        yield from _not_covered(self.resolved.recipe, self.engine)
        if facts_of(self.resolved).architecture is None:
            yield NotCovered(
                f"the architecture of {self.resolved.recipe.model.path}", "not known here: name model.arch"
            )
        yield from fork_keys_untold(self.resolved)
        yield from reward.untold
        yield from (one for one in reported if isinstance(one, NotCovered))

    def _resolved(self, document: Mapping[str, Any]) -> ResolvedRecipe:
        from rlx.recipe import Recipe

        made = Recipe.model_validate(document)
        return replace(self.resolved, recipe=made, document=document, origins={}, experiment=None)


def _applied(document: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    changed = copy.deepcopy(dict(document))
    for change in changes:
        *sections, key = change.key.split(".")
        place = changed
        for section in sections:
            place = place[section]
        place[key] = change.rehearsed
    return changed


def _backend(recipe: Recipe, engine: RehearsalEngine) -> Iterator[Change]:
    was = recipe.backend
    yield Change("backend.version", was.version, VERSION, "the verl that runs here")
    yield Change("backend.engine", was.engine, "fsdp2", "the engine that runs on a CPU")
    trainer = was.trainer if was.trainer != DECLARED else None
    yield Change("backend.trainer", was.trainer, trainer, "it is not known how that program counts")
    for key in ("totals", "workdir", "entrypoint", "config_name", "key_source"):
        yield Change(f"backend.{key}", getattr(was, key), None, "stock verl, as it is installed here")
    yield Change("backend.python", was.python, engine.python, "the interpreter that has the rest")


def _model(recipe: Recipe, places: Places, shown: str) -> Iterator[Change]:
    yield Change("model.path", recipe.model.path, places.model, shown)
    yield Change("model.arch", recipe.model.arch, None, "the tiny model's own config.json")
    yield Change("model.dtype", recipe.model.dtype, "float32", "what a CPU computes in")


def _data(
    recipe: Recipe, places: Places, batch: RehearsalBatch, prompt_tokens: int, sources: tuple[str, str]
) -> Iterator[Change]:
    was = recipe.data
    yield Change("data.train", was.train, places.train, sources[0])
    yield Change("data.val", was.val, places.val, sources[1])
    yield Change("data.train_rows", was.train_rows, STEPS * batch.batch, f"{STEPS} steps")
    yield Change("data.val_rows", was.val_rows, VAL_ROWS, "a few")
    yield Change("data.max_prompt_tokens", was.max_prompt_tokens, prompt_tokens, "the longest prompt in bytes")
    tokens = min(was.max_response_tokens, _ANSWER_TOKENS)
    yield Change("data.max_response_tokens", was.max_response_tokens, tokens, "a random model has nothing to say")


def _batches(recipe: Recipe, whole: RehearsalBatch, batch: RehearsalBatch, factor: int) -> Iterator[Change]:
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
    yield Change(
        "eval.post", recipe.eval.post.rows if recipe.eval.post else None, None, "the validation at the end is rehearsed"
    )


def _rollout(recipe: Recipe, engine: RehearsalEngine, devices: int) -> Iterator[Change]:
    was = recipe.rollout
    yield Change("rollout.engine", was.engine, engine.name, engine.shown)
    tp, why = (math.gcd(was.tp, devices), "as many ranks as there are") if engine.name == "vllm" else (1, "")
    yield Change("rollout.tp", was.tp, tp, why or "the CPU rollout splits nothing")
    yield Change("rollout.ep", was.ep, 1, "the CPU rollout splits nothing")


def _layout(recipe: Recipe, batch: RehearsalBatch) -> Iterator[Change]:
    was = recipe.layout
    yield Change("layout.device", was.device, "cpu", "this machine")
    yield Change("layout.nodes", was.nodes, 1, "this machine")
    yield Change("layout.devices_per_node", was.devices_per_node, batch.devices, "FSDP2 workers on this CPU, over gloo")
    for key in ("tp", "pp", "ep", "cp"):
        yield Change(f"layout.{key}", getattr(was, key), 1, "FSDP2 on a CPU splits parameters only")
    pools = dict(was.pools) if was.pools else None
    yield Change("layout.pools", pools, None, "all roles share the workers")


def _rest(recipe: Recipe, secrets: tuple[str, ...]) -> Iterator[Change]:
    if recipe.aqn and recipe.aqn.provider == "builtin":
        yield Change("aqn", "the fork's own", None, "stock verl has no such noise")
    if recipe.track is not None:
        yield Change("track", list(recipe.track.to), None, "a rehearsal is not tracked")
    yield Change("secrets", list(recipe.secrets), list(secrets), "those that are set here")
    env = {name: text for name, text in recipe.env.items() if not any(mark in name for mark in _DEVICE_VARIABLES)}
    yield Change("env", dict(recipe.env), env, "variables that name devices or start Ray are the rehearsal's own")


def _not_covered(recipe: Recipe, engine: RehearsalEngine) -> Iterator[NotCovered]:
    """Name what no CPU can rehearse."""
    layout, kind = recipe.layout, recipe.backend.engine
    if kind == "megatron":
        sizes = f"tp {layout.tp}, pp {layout.pp}, ep {layout.ep}, cp {layout.cp}"
        yield NotCovered(f"Megatron ({sizes})", "its kernels and its splits need accelerators; FSDP2 was rehearsed")
    elif layout.cp > 1:
        yield NotCovered(f"layout.cp {layout.cp}", "Ulysses needs attention without padding, which no CPU has")
    if layout.device == "npu":
        yield NotCovered("CANN and HCCL", "collectives went over gloo")
    elif layout.device == "cuda":
        yield NotCovered("CUDA and NCCL", "collectives went over gloo")
    if layout.device != "cpu":
        yield NotCovered("memory", "a tiny model fits anywhere; rlx plan estimates the real one")
        yield NotCovered(f"{recipe.model.dtype}", "float32 was rehearsed; small noise is rounded away in bfloat16 only")
    if recipe.aqn and recipe.aqn.provider == "builtin":
        yield NotCovered("aqn", "the fork's own noise; rlx's payload was not put in its place")
    if recipe.eval.post is not None:
        yield NotCovered("eval.post", "the checkpoint's conversion, and who answers and grades after the training")
    yield from _untold_of_rollout(recipe, engine)


def _untold_of_rollout(recipe: Recipe, engine: RehearsalEngine) -> Iterator[NotCovered]:
    name = recipe.rollout.engine
    if name == "vllm" == engine.name:
        yield NotCovered("vllm on accelerators", "graphs, kernels, sleep mode, memory; its CPU build was rehearsed")
    elif name != "cpu":
        yield NotCovered(name, f"its engine, settings and weight loading; {engine.shown} stood in")
    if recipe.model.lora is not None and engine.name == "cpu":
        yield NotCovered("adapters sent by themselves", "the CPU rollout gets the merged weights")


@dataclass(frozen=True, slots=True)
class RehearsalBatch:
    """`batch` and `mini` in prompts, `micro` and `log_prob` in samples a device and pass, `n` samples a prompt."""

    batch: int
    mini: int
    micro: int
    log_prob: int
    n: int
    devices: int


def batch_of(facts: VerlFacts) -> RehearsalBatch:
    """Read the batch that the back-end really gets. Raises UsageError for one that cannot be counted."""
    numbers = [facts.count(key) for key in (BATCH, MINI, SAMPLES)]
    if None in numbers:
        raise UsageError("the batch of this recipe is not known beforehand", "remove what overrides its sizes")
    batch, mini, n = (number or 1 for number in numbers)
    if mini > batch:
        mini = facts.recipe.train.mini_batch_size  # A fork that counts samples here.
    micro = facts.count(MICRO) or facts.recipe.train.micro_batch_size
    log_prob = facts.count(LOG_MICRO) or facts.recipe.rollout.log_prob_micro_batch_size
    return RehearsalBatch(batch, mini, micro, log_prob, n, facts.data_parallel or facts.devices or 1)


def scaled(whole: RehearsalBatch) -> Iterator[tuple[int, RehearsalBatch]]:
    """Factor and batch, the smallest batch first; those on two devices before those on one.

    As many updates a step as before: a factor divides the batch and the mini batch. An update keeps two prompts where
    it has as many, since prompts are told apart only then.
    """
    factors = [factor for factor in divisors(math.gcd(whole.batch, whole.mini)) if whole.mini >= 2 * factor] or [1]
    for devices in sorted({min(_DEVICES, whole.devices), 1}, reverse=True):
        for factor in reversed(factors):
            yield factor, _divided(whole, factor, devices)


def _divided(whole: RehearsalBatch, factor: int, devices: int) -> RehearsalBatch:
    batch, mini = whole.batch // factor, whole.mini // factor

    def pieces(size: int, prompts: int, scaled_prompts: int) -> int:
        """Keep as many passes over a device's samples as before, where that divides; at most one sample each."""
        share, now = prompts * whole.n / whole.devices, scaled_prompts * whole.n // devices
        wanted = max(1, min(now, int(size * now / share)))
        return max(part for part in divisors(max(1, now)) if part <= wanted)

    micro = pieces(whole.micro, whole.mini, mini)
    return RehearsalBatch(batch, mini, micro, pieces(whole.log_prob, whole.batch, batch), whole.n, devices)


def engine_for(resolved: ResolvedRecipe, wanted: str | None) -> RehearsalEngine:
    """Choose the engine by this name; without one, the recipe's own if it is installed and was tried with such a model.

    Raises UsageError for another name, RlxError where vLLM is wanted and its CPU build is not there.
    """
    if wanted not in (None, *NAMES):
        raise UsageError(f"--engine {wanted}: a rehearsal generates with {' or '.join(NAMES)}", "leave it out")
    python = _vllm_python()
    if wanted == "vllm" and not python:
        raise RlxError(f"there is no {_BESIDE} beside {sys.prefix}", "make engines in a clone of rlx, or --engine cpu")
    if wanted == "cpu" or not python or not (wanted or _is_seen_with(resolved)):
        return RehearsalEngine()
    return RehearsalEngine("vllm", python, HEAD_SIZES[0], "the real vLLM, its CPU build")


def _vllm_python() -> str:
    if importlib.util.find_spec("vllm") is not None:
        return "python3"
    beside = Path(sys.prefix).parent / _BESIDE
    return str(beside) if beside.exists() else ""


def _is_seen_with(resolved: ResolvedRecipe) -> bool:
    """Dense models only: experts and latent attention were not tried with the CPU build."""
    shape = facts_of(resolved).architecture
    return resolved.recipe.rollout.engine == "vllm" and not (shape and (shape.experts or shape.latent))
