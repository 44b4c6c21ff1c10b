"""The two lists of docs/glossary.md: phrases that no sentence uses, and words that no name uses."""

from __future__ import annotations

import re

PHRASES = re.compile(
    r"\b(nobody|somebody|whoever|held against|accuse[ds]?|witness(es)?|dissents?|honest(y)?|lies|in vain|for want of|"
    r"no more than|of the like|and the like|what is of|close the lid|sighting|struck)\b",
    re.IGNORECASE,
)
"""Words that the glossary replaces, and phrases that readers with English as a second language have to puzzle over."""

NAMES = re.compile(
    r"(draft|deal|promise|flaw|witness|charge|dissent|struck|sight|sighting|tombstone|accuse)(s|d|ed|ing)?"
)
"""Words of the column "not" of which no name of a class, module or function is made."""
