"""Tell whoever called a use case how it goes, while it is under way."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]
"""Takes one line for a person, at the moment it is true."""


def unheard(text: str) -> None:
    """Take a line that nobody wants to see."""
