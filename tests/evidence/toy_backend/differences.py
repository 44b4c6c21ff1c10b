"""What its keys are about."""

from __future__ import annotations

from rlx.compare.difference_areas import Area, Patterns

FACTS: Patterns = {Area.CODE: ("package toy",)}
OVERRIDES: Patterns = {Area.EVALUATION: ("heldout_*",)}
