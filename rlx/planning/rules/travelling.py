"""Files of this machine that travel with a run although they are not the recipe's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.local_files import is_outside, is_private
from rlx.planning.rules.facts import Facts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe


@rule("RLX026")
def files_from_outside(facts: Facts) -> Iterator[Flaw]:
    folder = facts.resolved.folder
    for key, path in reward_files(facts.recipe).items():
        try:
            is_secret = is_private(path, folder)
            if not is_secret and not is_outside(path, folder):
                continue
        except OSError:
            continue  # The rules of the back-end say that it cannot be read.
        name = f"{key} {os.path.relpath(path, folder)}"
        if is_secret and not any(path.samefile(allowed) for allowed in _allowed(facts)):
            fix = f"put it beside the recipe, or if you want it to travel: --send {path}"
            yield error(f"{name} is private, and would travel with the run", fix, key)
        else:
            fix = "look whether you want that; a file beside the recipe is its own"
            yield warning(f"{name} lies outside the recipe's folder, and travels with the run", fix, key)


def reward_files(recipe: Recipe) -> Mapping[str, Path]:
    """List the files of this machine that travel because the recipe names them, by its keys."""
    from rlx.recipe.schema import FunctionReward

    post = recipe.eval.post
    rewards = {"reward.path": recipe.reward, "eval.post.reward.path": post and post.reward}
    return {key: Path(reward.path) for key, reward in rewards.items() if isinstance(reward, FunctionReward)}


def _allowed(facts: Facts) -> Iterator[Path]:
    paths = (Path(os.path.expanduser(name)) for name in facts.resolved.sendable)  # noqa: PTH111
    return (path for path in paths if path.exists())
