"""Findings that a recipe takes on itself, each with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.plan import Finding, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

# What is wrong with the recipe itself: keys and lengths without which there is no plan.
_NOT_WAIVABLE = re.compile(r"RLX0\d\d")


def waived(resolved: ResolvedRecipe, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings, those that the recipe waives as notes with its reason; and what it waives in vain."""
    reasons = resolved.recipe.waive
    for finding in findings:
        reason = reasons.get(finding.id, "")
        is_waived = reason and finding.severity is not Severity.NOTE and not _NOT_WAIVABLE.match(finding.id)
        yield _as_note(finding, reason) if is_waived else finding
    found = {finding.id for finding in findings if finding.severity is not Severity.NOTE}
    for id in reasons:
        where = resolved.origins.get(f"waive.{id}", "")
        if _NOT_WAIVABLE.match(id):
            message = f"waive.{id}: findings about the recipe itself cannot be waived"
            yield Finding("RLX030", Severity.ERROR, message, "remove it, and correct what it is about", where)
        elif id not in found:
            yield Finding("RLX030", Severity.NOTE, f"waive.{id}: there is nothing to waive", "remove it", where)


def _as_note(finding: Finding, reason: str) -> Finding:
    message = f"waived ({reason}): {finding.message}"
    return replace(finding, severity=Severity.NOTE, message=message, fix="", waived=reason)
