"""Check a recipe by arithmetic, key tables and known faults before anything starts, without a host.

A recipe may waive findings, each with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.backends.protocol import load_backend
from rlx.errors import UsageError
from rlx.model import Finding, Severity
from rlx.planning.rules.facts import facts_of
from rlx.planning.rules.rule_table import Rule, all_rules, rules_of

if TYPE_CHECKING:
    from rlx.model import Installation
    from rlx.recipe import ResolvedRecipe


def check(resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
    """Return every finding about one arm, errors first: of its back-end and of the rules. Never raises for a recipe.

    `found`: the back-end that a query found on the host; None without a query.
    """
    of_backend = load_backend(resolved.recipe.backend.kind).check(resolved, found)
    findings = [*_old_names(resolved), *of_backend, *_rule_findings(resolved, found)]
    findings = list(waived(resolved, findings))
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: list(Severity).index(finding.severity)))


def find_rule(id: str) -> Rule | None:
    return next((rule for rule in all_rules() if rule.id == id), None)


def _old_names(resolved: ResolvedRecipe) -> Iterator[Finding]:
    for each in resolved.old_names:
        old, new = each.key.old, each.key.new
        message = f"{old} is called {new} since rlx {each.key.since}; the old name is still read"
        yield Finding("RLX008", Severity.WARNING, message, f"write {new} instead of {old}", str(each.place))


def _rule_findings(resolved: ResolvedRecipe, found: Installation | None) -> Iterator[Finding]:
    try:
        facts = facts_of(resolved, found)
    except UsageError:
        return  # The back-end has already reported it, and its settings are not known.
    for rule in rules_of(resolved.recipe.backend.kind):
        for result in rule.check(facts):
            yield Finding(rule.id, result.severity, result.message, result.fix, resolved.origins.get(result.key, ""))


__all__ = ["check", "find_rule", "waives_nothing"]


_OF_DATA = frozenset({"RLX024"})
"""Found only in the data files, which are not read here; `rlx data check` uses the recipe's reason."""


def waived(resolved: ResolvedRecipe, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings, with waived ones as notes with their reason, and report waivers without effect."""
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
            yield Finding("RLX030", Severity.ERROR, message, "remove it, and correct the error", where)


def waives_nothing(finding: Finding) -> bool:
    """Return whether the finding reports that a waiver has no effect in an arm."""
    return finding.id == "RLX030" and finding.severity is Severity.NOTE


def _can_be_waived(finding: Finding) -> bool:
    """Return whether a finding may be waived: not those on keys and lengths that a plan needs."""
    is_its_own = finding.id.startswith("RLX0") and finding.severity is Severity.ERROR
    return finding.severity is not Severity.NOTE and not is_its_own


def _as_note(finding: Finding, reason: str) -> Finding:
    message = f"waived ({reason}): {finding.message}"
    return replace(finding, severity=Severity.NOTE, message=message, fix="", waived=reason)
