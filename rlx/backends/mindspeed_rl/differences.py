"""Sort differing packages of MindSpeed-RL by subject; its keys are named as in other programs."""

from __future__ import annotations

from rlx.compare.difference_areas import DifferenceArea, Patterns
from rlx.compare.evaluation_conditions import Conditions

FACTS: Patterns = {DifferenceArea.CODE: ("package mindspeed_rl",), DifferenceArea.VERSIONS: ("package mindspeed*",)}
OVERRIDES: Patterns = {}
# It has no validation: its result is a reward of the training, whose conditions are keys of the recipe.
CONDITIONS: Conditions = {}
