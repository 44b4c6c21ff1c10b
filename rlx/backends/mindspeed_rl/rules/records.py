"""MindSpeed-RL: what a run sends to trackers."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import MindSpeedRlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX470")
def no_tracker(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    track = facts.recipe.track
    if track is not None:
        names = ", ".join(track.to)
        fix = f"leave it out; afterwards: rlx export RUN --to {track.to[0]}"
        yield error(f"track: MindSpeed-RL cannot log to {names} without a danger for the run", fix, "track")
