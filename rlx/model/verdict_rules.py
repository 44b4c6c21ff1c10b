"""Number the rules by which runs are checked and compared.

The row of a finding says since which version it is made (`since`), and in which it was last made of other runs than
before (`changed`). A bundle that was judged under older rules is judged under those again, and what the newer rules say
stands beside it.
"""

from __future__ import annotations

from rlx.findings import finding_row

RULES = 4
"""A check that is added, or that answers otherwise, takes the next number."""
FIRST_RULES = 1
"""The rules of everything that names no version: what was judged up to commit cf603b12."""


def is_made(id: str, rules: int) -> bool:
    """Return whether rules of that version can make the finding."""
    return rules >= RULES or finding_row(id).since <= rules


def is_changed(id: str, rules: int) -> bool:
    """Return whether a later version than that one changed which runs get the finding."""
    return rules < RULES and finding_row(id).changed > rules
