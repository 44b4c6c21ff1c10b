"""MindSpeed-RL: what a run sends to trackers."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import MindSpeedRlFacts
from rlx.preflight.rules.rule_table import Flaw, error, rule


@rule(
    "RLX470",
    title="MindSpeed-RL: a tracker during the training",
    why="its wandb wants a login offline, too, and ends the training without one; its TensorBoard writes into the "
    "checkout, for all runs; of the others most versions have none",
    fix="leave out `track`, and write it afterwards: `rlx export RUN --to …`",
    source="MindSpeed-RL 2.1.0 to master, mindspeed_rl/utils/loggers.py, WandbLogger; trainer/base.py: SummaryWriter()",
)
def no_tracker(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    track = facts.recipe.track
    if track is not None:
        names = ", ".join(track.to)
        fix = f"leave it out; afterwards: rlx export RUN --to {track.to[0]}"
        yield error(f"track: MindSpeed-RL cannot log to {names} without a danger for the run", fix, "track")
