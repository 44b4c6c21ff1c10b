"""Hold a recipe against arithmetic, key tables and known faults before anything starts. No look at a host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.protocol import load_backend
from rlx.errors import UsageError
from rlx.model import Finding, Severity
from rlx.planning.rules.facts import facts_of
from rlx.planning.rules.rule_table import Rule, all_rules, rules_of
from rlx.planning.rules.waive import waived, waives_nothing

if TYPE_CHECKING:
    from rlx.model import Installation
    from rlx.recipe import ResolvedRecipe


def check(resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
    """Every finding about one arm, errors first: of its back-end, and of the rules. Never raises for a recipe.

    `found`: what a look at the host told of the back-end there; None if nobody looked.
    """
    findings = [*_old_names(resolved), *_backend_findings(resolved, found), *_rule_findings(resolved, found)]
    findings = list(waived(resolved, findings))
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: list(Severity).index(finding.severity)))


def find_rule(id: str) -> Rule | None:
    return next((rule for rule in all_rules() if rule.id == id), None)


def _old_names(resolved: ResolvedRecipe) -> Iterator[Finding]:
    for each in resolved.old_names:
        old, new = each.key.old, each.key.new
        message = f"{old} is called {new} since rlx {each.key.since}; the old name is read all the same"
        yield Finding("RLX008", Severity.WARNING, message, f"write {new} in place of {old}", str(each.place))


def _backend_findings(resolved: ResolvedRecipe, found: Installation | None) -> Iterator[Finding]:
    yield from load_backend(resolved.recipe.backend.kind).check(resolved, found)


def _rule_findings(resolved: ResolvedRecipe, found: Installation | None) -> Iterator[Finding]:
    try:
        facts = facts_of(resolved, found)
    except UsageError:
        return  # The back-end has said so already, and nothing is known of its settings.
    for rule in rules_of(resolved.recipe.backend.kind):
        for flaw in rule.check(facts):
            yield Finding(rule.id, flaw.severity, flaw.message, flaw.fix, resolved.origins.get(flaw.key, ""))


__all__ = ["check", "find_rule", "waives_nothing"]
