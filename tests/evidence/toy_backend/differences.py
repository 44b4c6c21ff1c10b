"""What its keys are about."""

from __future__ import annotations

from rlx.compare.difference_areas import DifferenceArea, Patterns
from rlx.compare.evaluation_conditions import Condition, Conditions

FACTS: Patterns = {DifferenceArea.CODE: ("package toy",)}
OVERRIDES: Patterns = {DifferenceArea.EVALUATION: ("heldout_*",)}
CONDITIONS: Conditions = {Condition.SAMPLING: ("heldout_temperature",)}
