"""List the causes of an end that lie in the machine, whatever the recipe: what a run may be begun again for.

The same as `is_of_machine` in the rows of rlx/evidence/diagnosis, which rules on recipes do not read; a test holds them
equal.
"""

from __future__ import annotations

LOST = "lost"
# fmt: off
MACHINE_CAUSES = frozenset((
    "RLX805", "RLX806", "RLX809", "RLX813", "RLX877", "RLX880", "RLX956", "RLX960", "RLX961", "RLX967",
))
# fmt: on
