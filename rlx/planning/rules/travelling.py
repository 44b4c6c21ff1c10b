"""Report files of this machine that are uploaded with a run from outside the recipe's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.local_files import is_outside, is_private
from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe


@rule("RLX026")
def files_from_outside(facts: RecipeFacts) -> Iterator[RuleFinding]:
    folder = facts.resolved.folder
    for key, path in reward_files(facts.recipe).items():
        try:
            is_secret = is_private(path, folder)
            if not is_secret and not is_outside(path, folder):
                continue
        except OSError:
            continue  # The rules of the back-end report that it cannot be read.
        name = f"{key} {os.path.relpath(path, folder)}"
        if is_secret and not any(path.samefile(allowed) for allowed in _allowed(facts)):
            fix = f"move it beside the recipe, or confirm the upload: --send {path}"
            yield error(f"{name} is private, and would be uploaded with the run", fix, key)
        else:
            fix = "check that this is intended; a file beside the recipe causes no warning"
            yield warning(f"{name} is outside the recipe's folder, and is uploaded with the run", fix, key)


def reward_files(recipe: Recipe) -> Mapping[str, Path]:
    """List the files of this machine that are uploaded because the recipe names them, by its keys."""
    from rlx.recipe.schema import FunctionReward

    post = recipe.eval.post
    rewards = {"reward.path": recipe.reward, "eval.post.reward.path": post and post.reward}
    return {key: Path(reward.path) for key, reward in rewards.items() if isinstance(reward, FunctionReward)}


def _allowed(facts: RecipeFacts) -> Iterator[Path]:
    paths = (Path(os.path.expanduser(name)) for name in facts.resolved.sendable)  # noqa: PTH111
    return (path for path in paths if path.exists())
