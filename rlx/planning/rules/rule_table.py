"""Register the rules: each is a small generator of findings, whose id has a row in the table of findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from rlx.backends.registry import kinds, optional_part, packages
from rlx.findings import free_id, require_row
from rlx.model import Severity

# Rules for every back-end, one module per subject.
_COMMON = ("travelling", "trainer", "model", "noise", "experiment", "tracking", "retrying")


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """One result of a rule. `message` has the numbers, `fix` what to write instead, `key` the recipe key."""

    severity: Severity
    message: str
    fix: str
    key: str = ""


# A common rule takes RecipeFacts, a rule of a back-end takes the subclass of its back-end.
Check = Callable[[Any], Iterator[RuleFinding]]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    check: Check

    @property
    def module(self) -> str:
        return self.check.__module__

    @property
    def backend(self) -> str | None:
        """The back-end whose folder has the rule; None: it is for every back-end."""
        return next((kind for kind, package in packages().items() if self.module.startswith(f"{package}.")), None)


_RULES: dict[str, Rule] = {}


def rule(id: str) -> Callable[[Check], Check]:
    """Register a rule for the recipes of the back-end whose folder has it.

    Raises ValueError for an id that another rule has, or that has no row in the table of findings.
    """
    require_row(id)

    def register(check: Check) -> Check:
        if id in _RULES:
            taken = _RULES[id].check
            raise ValueError(f"{id} is the id of the rule {taken.__module__}.{taken.__name__}: take {free_id(id)}")
        _RULES[id] = Rule(id, check)
        return check

    return register


@cache
def rules_of(kind: str) -> tuple[Rule, ...]:
    """Return the rules for recipes of a back-end by subject, and those of one subject in the order of their ids."""
    own = optional_part(kind, "rules")
    subjects: tuple[str, ...] = own.MODULES if own else ()
    common = tuple(subject for subject in _COMMON if subject not in subjects)
    return tuple(rule for subject in (*common, *subjects) for rule in _of_subject(kind, subject))


def all_rules() -> tuple[Rule, ...]:
    """Return every rule once, one back-end after another."""
    return tuple(dict.fromkeys(rule for kind in kinds() for rule in rules_of(kind)))


def _of_subject(kind: str, subject: str) -> list[Rule]:
    common = import_module(f"{__package__}.{subject}") if subject in _COMMON else None
    modules = [module for module in (common, optional_part(kind, f"rules.{subject}")) if module]
    # From a copy, since another thread that plans for another host may be loading rules.
    rules = tuple(_RULES.values())
    found = [rule for module in modules for rule in rules if rule.module == module.__name__]
    return sorted(found, key=lambda rule: rule.id) if len(modules) > 1 else found


def error(message: str, fix: str, key: str = "") -> RuleFinding:
    """Report that the run would fail, or would not be what the recipe says."""
    return RuleFinding(Severity.ERROR, message, fix, key)


def warning(message: str, fix: str, key: str = "") -> RuleFinding:
    """Warn of a run that works but may not be intended."""
    return RuleFinding(Severity.WARNING, message, fix, key)


def note(message: str, fix: str = "", key: str = "") -> RuleFinding:
    return RuleFinding(Severity.NOTE, message, fix, key)
