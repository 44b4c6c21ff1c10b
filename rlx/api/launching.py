"""Launch plans."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.planning import Plans
    from rlx.runs import Launched


def launch(plans: Plans, *, secrets: Mapping[str, str] | None = None) -> Launched:
    """Start every plan as a detached run. `secrets` are by default the environment. Raises RlxError, UsageError."""
    from rlx.api.home import rlx_home
    from rlx.api.planning import launchable
    from rlx.runs import launch as launch_plans

    return launch_plans(launchable([*plans.plans]), os.environ if secrets is None else secrets, rlx_home())
