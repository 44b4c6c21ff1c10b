"""Say which host of a sweep takes which seeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.plans import Plans


def deal_lines(plans: Plans) -> Iterator[str]:
    """`a3 takes seeds 1, 4; it is free` for each host that takes part; nothing of a launch to one place."""
    if plans.deal is None:
        return
    for room in plans.deal.rooms:
        seeds = dict.fromkeys(plan.seed for plan in plans.plans if plan.site.host == room.host)
        named = f"seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds))}" if seeds else "nothing"
        there = f"{room.ahead} run{'s' * (room.ahead != 1)} before them" if room.ahead else "it is free"
        yield f"{room.host} takes {named}; {there}"
