"""Findings that a recipe takes on itself, each with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

_OF_DATA = frozenset({"RLX024"})
"""Found in the data files alone, which are not here: `rlx data check` goes by the recipe's reason."""


def waived(resolved: ResolvedRecipe, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings, those that the recipe waives as notes with its reason; and what it waives in vain."""
    reasons = resolved.recipe.waive
    for finding in findings:
        reason = reasons.get(finding.id, "")
        yield _as_note(finding, reason) if reason and _can_be_waived(finding) else finding
    for id in reasons:
        about = [finding for finding in findings if finding.id == id and finding.severity is not Severity.NOTE]
        where = resolved.origins.get(f"waive.{id}", "")
        if id in _OF_DATA:
            continue
        if not about:
            yield Finding("RLX030", Severity.NOTE, f"waive.{id}: there is nothing to waive", "remove it", where)
        elif not all(map(_can_be_waived, about)):
            message = f"waive.{id}: an error of the recipe itself cannot be waived"
            yield Finding("RLX030", Severity.ERROR, message, "remove it, and correct what it is about", where)


def waives_nothing(finding: Finding) -> bool:
    """Tell whether it says that an arm has nothing of what the recipe waives."""
    return finding.id == "RLX030" and finding.severity is Severity.NOTE


def _can_be_waived(finding: Finding) -> bool:
    """Tell whether it may be waived: not keys and lengths without which there is no plan."""
    is_its_own = finding.id.startswith("RLX0") and finding.severity is Severity.ERROR
    return finding.severity is not Severity.NOTE and not is_its_own


def _as_note(finding: Finding, reason: str) -> Finding:
    message = f"waived ({reason}): {finding.message}"
    return replace(finding, severity=Severity.NOTE, message=message, fix="", waived=reason)
