"""What its keys are about."""

from __future__ import annotations

from rlx.compare.difference_areas import Area, Patterns
from rlx.compare.evaluation_conditions import Condition, Conditions

FACTS: Patterns = {Area.CODE: ("package toy",)}
OVERRIDES: Patterns = {Area.EVALUATION: ("heldout_*",)}
CONDITIONS: Conditions = {Condition.SAMPLING: ("heldout_temperature",)}
