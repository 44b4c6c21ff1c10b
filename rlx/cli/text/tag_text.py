"""Show what a person said of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.runs.index.labels import Label


def label_text(label: Label) -> str:
    """`keep, paper · lr was wrong`, or that there is nothing."""
    parts = [", ".join(label.tags) or "no tags", label.note]
    return " · ".join(part for part in parts if part)
