"""Seal a plan once the rules have judged its recipe, so that a launch can tell a judged plan from any other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from rlx import __version__
from rlx.plan.jsonable import to_jsonable
from rlx.plan.launch_plan import LaunchPlan


def seal(plan: LaunchPlan) -> LaunchPlan:
    """Write the digest of the plan and of the rules' version into it. Only `rlx.preflight.checked` does so."""
    return replace(plan, checked=_digest(plan))


def is_sealed(plan: LaunchPlan) -> bool:
    """Tell whether the plan is as it was when the rules of this version judged it."""
    return plan.checked == _digest(plan)


def _digest(plan: LaunchPlan) -> str:
    document = [__version__, to_jsonable(replace(plan, checked=""))]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
