"""List the causes of an end that lie in the machine, whatever the recipe: what a run may be begun again for.

The same as `is_of_machine` in the rows of rlx/evidence/diagnosis, which rules on recipes do not read; a test holds them
equal.
"""

from __future__ import annotations

LOST = "lost"
MACHINE_CAUSES = frozenset(
    f"RLX{number}" for number in (590, 591, 592, 805, 806, 809, 813, 877, 880, 956, 960, 961, 967, 968)
)
