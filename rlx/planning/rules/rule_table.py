"""The rules: each a small generator of flaws with an id, whose row in the table of findings says what it means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from rlx.backends.registry import kinds, optional_part, packages
from rlx.findings import free_id, require_row
from rlx.model import Severity

# Rules that hold for every back-end, a module for each subject.
_COMMON = ("travelling", "trainer", "model", "noise", "experiment", "tracking", "retrying")


@dataclass(frozen=True, slots=True)
class Flaw:
    """The result of a rule: numbers in `message`, what to write instead in `fix`. `key`: the recipe key at fault."""

    severity: Severity
    message: str
    fix: str
    key: str = ""


# A common rule takes Facts, one of a back-end the Facts of that.
Check = Callable[[Any], Iterator[Flaw]]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    check: Check

    @property
    def module(self) -> str:
        return self.check.__module__

    @property
    def backend(self) -> str | None:
        """The kind in whose folder it stands; None: it holds for every back-end."""
        return next((kind for kind, package in packages().items() if self.module.startswith(f"{package}.")), None)


_RULES: dict[str, Rule] = {}


def rule(id: str) -> Callable[[Check], Check]:
    """Register a rule on the recipes of the back-end in whose folder it stands.

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
    """The rules on recipes of a kind, in the order of its subjects; those of one subject in the order of their ids."""
    own = optional_part(kind, "rules")
    subjects: tuple[str, ...] = own.MODULES if own else ()
    common = tuple(subject for subject in _COMMON if subject not in subjects)
    return tuple(rule for subject in (*common, *subjects) for rule in _of_subject(kind, subject))


def all_rules() -> tuple[Rule, ...]:
    """Every rule, once: those of each back-end after another."""
    return tuple(dict.fromkeys(rule for kind in kinds() for rule in rules_of(kind)))


def _of_subject(kind: str, subject: str) -> list[Rule]:
    common = import_module(f"{__package__}.{subject}") if subject in _COMMON else None
    modules = [module for module in (common, optional_part(kind, f"rules.{subject}")) if module]
    found = [rule for module in modules for rule in _in_module(module)]
    return sorted(found, key=lambda rule: rule.id) if len(modules) > 1 else found


def _in_module(module: ModuleType) -> list[Rule]:
    """Select from a copy: the hosts of a sweep are planned in threads, and another one may just load more rules."""
    return [rule for rule in tuple(_RULES.values()) if rule.module == module.__name__]


def error(message: str, fix: str, key: str = "") -> Flaw:
    """The run would fail, or would not be what the recipe says."""
    return Flaw(Severity.ERROR, message, fix, key)


def warning(message: str, fix: str, key: str = "") -> Flaw:
    """Warn: it runs, and somebody should know first."""
    return Flaw(Severity.WARNING, message, fix, key)


def note(message: str, fix: str = "", key: str = "") -> Flaw:
    return Flaw(Severity.NOTE, message, fix, key)
