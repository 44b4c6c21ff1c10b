"""The reward of a rehearsal: the recipe's own function, called by a file of rlx that records each call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.backends.verl.data import TABLES
from rlx.errors import RlxError, UsageError
from rlx.local_files import MOST_SOURCE, read_text
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.planning.rehearsal.twin import Change, Untold
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe.schema import FunctionReward, Recipe

_RECORDER = "rehearsed_reward.py"
_ORDER = f"{PAYLOAD_DIR}/rehearsed_reward.json"


@dataclass(frozen=True, slots=True)
class Reward:
    """`section` of the twin's recipe, and the further files of its run."""

    section: Mapping[str, Any]
    files: Mapping[str, str]
    changes: tuple[Change, ...] = ()
    untold: tuple[Untold, ...] = ()

    @property
    def changed(self) -> set[str]:
        """Keys of the recipe from which rlx writes the recorder's name."""
        return {"reward.path", "reward.function", "reward.kwargs"}


def reward_of(recipe: Recipe, own_rows: bool) -> Reward:
    """`own_rows`: the training rows are the user's. Raises RlxError for a file that cannot be read."""
    from rlx.recipe.schema import FunctionReward

    reward = recipe.reward
    if isinstance(reward, FunctionReward):
        return _of_function(reward)
    if isinstance(reward, str) and (own_rows or reward in TABLES.rewards):
        change = Change("reward", reward, "verl's own", "picked by data_source; each call is recorded")
        return Reward(_section({}), _order(file=None), (change,))
    why = "not verl's own, and there are no rows here that could say what it grades"
    change = Change("reward", str(reward), "a stand-in", why)
    return Reward(_section({}), _order(stand_in=True), (change,), (Untold(f"reward {reward}", why),))


def _of_function(reward: FunctionReward) -> Reward:
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
    return Reward(_section(reward.kwargs), files, (change,))


def _section(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {"path": str(payload_folder("verl") / _RECORDER), "function": "compute_score", "kwargs": dict(kwargs)}


def _order(**order: Any) -> dict[str, str]:
    return {_ORDER: json.dumps(order)}
