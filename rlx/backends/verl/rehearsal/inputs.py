"""The inputs of a rehearsal: the recipe's `overrides` for the verl that rehearses, made-up rows, and the reward."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.backends.shared.overrides import Override
from rlx.backends.shared.rendering import KeyTable
from rlx.backends.verl.data import TABLES
from rlx.backends.verl.keys import TRAINERS, find_rename, find_table, removed_value
from rlx.backends.verl.overrides import VerlRendering, rendered
from rlx.errors import RlxError, UsageError
from rlx.local_files import MOST_SOURCE, read_text
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.planning.rehearsal import Change, NotCovered, Schema
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import FunctionReward, Recipe

VERSION = "0.9.1"
# Where the run writes, and what it starts from: these must be the rehearsal's own.
_OF_THE_RUN = (
    "trainer.logger",
    "trainer.default_local_dir",
    "trainer.default_hdfs_dir",
    "trainer.validation_data_dir",
    "trainer.rollout_data_dir",
    "trainer.resume_mode",
    "trainer.resume_from_path",
    "hydra.",
    "ray_kwargs.",
    "ray_init.",
    "global_profiler.",
)
_ENGINE_KWARGS = "actor_rollout_ref.rollout.engine_kwargs."
# What vLLM takes beside verl's own keys, and its CPU build knows.
_ON_ANY_DEVICE = (
    "block_size",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
)
_NOISE = "trainer.noise_injection."
_QUESTIONS = (("Ann has 3 apples and buys 4 more. How many has she now?", "7"), ("What is 12 minus 5?", "7"))
_RECORDER = "rehearsed_reward.py"
_ORDER = f"{PAYLOAD_DIR}/rehearsed_reward.json"


def rehearsal_table() -> KeyTable:
    return find_table(VERSION, TRAINERS[0])


def translated(
    twin: ResolvedRecipe, changed: Collection[str]
) -> tuple[Mapping[str, object], list[Change | NotCovered]]:
    """Translate the `overrides` for the twin, and report what happened to the others.

    `twin` is the recipe of the rehearsal with the `overrides` as they were; `changed` are the keys of the recipe that
    it changes.
    """
    table = rehearsal_table()
    written_by_rlx = rendered(VerlRendering(twin, twin.recipe, table, VERSION))
    # These follow from what the rehearsal changes, or from the CPU alone.
    ours = {one.key for one in written_by_rlx if one.source in changed or one.source == "rollout.engine"}
    kept: dict[str, object] = {}
    reported: list[Change | NotCovered] = []
    for written, value in twin.recipe.overrides.items():
        override = Override.read(written, value)
        now, why = _fate(override, table, ours)
        if twin.recipe.rollout.engine == "vllm" and _is_for_accelerators(override.key):
            now, why = None, "an argument of vLLM on accelerators"
        if now is None:
            reported.append(NotCovered(f"overrides.{written}: {value}", why))
            continue
        room = twin.recipe.data.max_prompt_tokens + twin.recipe.data.max_response_tokens
        if now.endswith("rollout.max_model_len") and isinstance(value, int) and value < room:
            reported.append(Change(f"overrides.{written}", value, room, "prompts are counted in bytes"))
            value = room
        kept[now] = value
        if now != written:
            reported.append(Change(f"overrides.{written}", value, f"{now}: {value}", why))
    return kept, reported


def _is_for_accelerators(key: str) -> bool:
    if key.startswith(_ENGINE_KWARGS):
        return key.split(".")[-1] not in _ON_ANY_DEVICE
    return key.startswith("actor_rollout_ref.rollout.quantization")


def _fate(override: Override, table: KeyTable, ours: Collection[str]) -> tuple[str | None, str]:
    """Return the key to write it under, or None; and why."""
    rename = find_rename(override.key, table, VERSION)
    key = rename.new if rename else override.key
    if ".megatron." in key or key.startswith("critic.megatron"):
        return None, "a setting of Megatron; the CPU trains with FSDP2"
    if key.startswith(_NOISE):
        return None, "the fork's own noise, which stock verl has not"
    if key in ours or key.startswith(_OF_THE_RUN):
        return None, "the rehearsal sets it itself"
    if fix := removed_value(key, override.value, VERSION):
        return None, f"verl {VERSION} does not take it: {fix}"
    if key not in table and not override.prefix.startswith("+"):
        return None, f"verl {VERSION} has no such key"
    prefix = "" if override.prefix == "+" and key in table.defaults else override.prefix
    return f"{prefix}{key}", f"its name in verl {VERSION}"


def fork_keys_untold(resolved: ResolvedRecipe) -> Iterator[NotCovered]:
    """Name what a fork's own program or files would do."""
    backend = resolved.recipe.backend
    if backend.entrypoint:
        yield NotCovered(
            f"backend.entrypoint: {backend.entrypoint}", "a fork's own program; stock main_ppo is rehearsed"
        )
    if backend.config_name:
        yield NotCovered(
            f"backend.config_name: {backend.config_name}", "a fork's own defaults; stock verl's are rehearsed"
        )


def _made_up(prompt_key: str, role: str, count: int) -> Any:
    """Rows as verl's own GSM8K example has them."""
    import pyarrow

    rows = []
    for index in range(count):
        question, answer = _QUESTIONS[index % len(_QUESTIONS)]
        rows.append(
            {
                "data_source": "openai/gsm8k",
                prompt_key: [{"role": "user", "content": f'{question} Output the final answer after "####".'}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": answer},
                "extra_info": {"index": index, "split": role, "question": question, "answer": f"#### {answer}"},
            }
        )
    return pyarrow.Table.from_pylist(rows)


@dataclass(frozen=True, slots=True)
class RecordedReward:
    """`section` of the twin's recipe, and the further files of its run."""

    section: Mapping[str, Any]
    files: Mapping[str, str]
    changes: tuple[Change, ...] = ()
    untold: tuple[NotCovered, ...] = ()

    @property
    def changed(self) -> set[str]:
        """Keys of the recipe from which rlx writes the recorder's name."""
        return {"reward.path", "reward.function", "reward.kwargs"}


def reward_of(recipe: Recipe, own_rows: bool) -> RecordedReward:
    """`own_rows`: the training rows are the user's. Raises RlxError for a file that cannot be read."""
    from rlx.recipe.schema import FunctionReward

    reward = recipe.reward
    if isinstance(reward, FunctionReward):
        return _of_function(reward)
    if isinstance(reward, str) and (own_rows or reward in TABLES.rewards):
        change = Change("reward", reward, "verl's own", "picked by data_source; each call is recorded")
        return RecordedReward(_section({}), _order(file=None), (change,))
    why = "not verl's own, and there are no rows here that could say what it grades"
    change = Change("reward", str(reward), "a stand-in", why)
    return RecordedReward(_section({}), _order(stand_in=True), (change,), (NotCovered(f"reward {reward}", why),))


def _of_function(reward: FunctionReward) -> RecordedReward:
    path = Path(reward.path)
    if path.name == _RECORDER:
        raise UsageError(f"reward.path: {path.name} is the name of one of rlx's own files", "rename it")
    try:
        text = read_text(path, MOST_SOURCE)
    except OSError as problem:
        raise RlxError(f"{path}: cannot be read: {problem.strerror}", "check reward.path") from None
    name = f"{reward.function} of {path.name}"
    change = Change("reward", name, f"{name}, recorded", "the same function; what it is asked and answers is kept")
    files = {f"{PAYLOAD_DIR}/{path.name}": text, **_order(file=path.name, function=reward.function)}
    return RecordedReward(_section(reward.kwargs), files, (change,))


def _section(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {"path": str(payload_folder("verl") / _RECORDER), "function": "compute_score", "kwargs": dict(kwargs)}


def _order(**order: Any) -> dict[str, str]:
    return {_ORDER: json.dumps(order)}


SCHEMA = Schema("verl's schema", _made_up)
