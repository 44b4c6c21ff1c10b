"""Launch plans that the preflight let pass."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.planning import Plans
    from rlx.runs import Launched

MANY_RUNS = 8


def launch(plans: Plans, *, secrets: Mapping[str, str] | None = None, strict: bool = False) -> Launched:
    """Start every run of the plans and return while they run. `secrets` default to the environment's.

    Raises UsageError or RlxError (exit 5) for plans against which something speaks, and if a secret is missing or the
    host refuses.
    """
    from rlx.api.home import rlx_home
    from rlx.runs import launch as launch_plans

    plans.refuse(strict)
    return launch_plans(plans.plans, os.environ if secrets is None else secrets, rlx_home())


def size_of(plans: Plans) -> str:
    """How much a launch starts, for who is asked: `10 runs of 8 × npu each`."""
    kinds = dict.fromkeys(f"{plan.devices * len(plan.nodes)} × {plan.device_kind}" for plan in plans.plans)
    return f"{len(plans.plans)} runs of {' or '.join(kinds)} each"
