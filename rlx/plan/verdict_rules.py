"""The version of the rules by which runs are judged and compared, and since which version each finding is made.

A check that is added, or that answers otherwise, gets the next number here: a bundle that was judged under an older
one is judged under that again, and what the newer rules say stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

RULES = 2
FIRST_RULES = 1
"""Those of everything that names no version: what was judged up to commit cf603b12."""
SINCE: Mapping[str, int] = {"RLX644": 2, "RLX913": 2}
"""Id of a finding -> the version that made it first. Those of the first version are not listed."""
CHANGED: Mapping[str, int] = {}
"""Id of a finding -> the latest version in which it is made of other runs than before."""


def is_made(id: str, rules: int) -> bool:
    """Tell whether rules of that version make the finding."""
    return SINCE.get(id, FIRST_RULES) <= rules


def is_changed(id: str, rules: int) -> bool:
    """Tell whether rules of that version made it of other runs than those of now."""
    return CHANGED.get(id, FIRST_RULES) > rules
