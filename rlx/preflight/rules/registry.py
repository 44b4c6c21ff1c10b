"""The rules: each a small generator of flaws with an id, and what `rlx explain` says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from rlx.plan import Severity

if TYPE_CHECKING:
    from rlx.preflight.rules.facts import Facts

# One module a subject; the order is that of the findings.
_MODULES = (
    "verl_limits",
    "length",
    "batch",
    "batch_limits",
    "sampling",
    "layout",
    "context",
    "model",
    "model_in_rollout",
    "environment",
    "noise",
    "noise_keys",
    "evaluation",
    "post",
    "records",
    "reward",
    "lora",
    "nla",
    "mindspeed_rl",
    "mindspeed_rl_settings",
    "mindspeed_rl_reward",
    "mindspeed_rl_limits",
    "memory",
)


@dataclass(frozen=True, slots=True)
class Flaw:
    """What a rule found: the numbers in `message`, what to write instead in `fix`. `key`: the recipe key at fault."""

    severity: Severity
    message: str
    fix: str
    key: str = ""


EVERY = ("verl", "mindspeed-rl")
Check = Callable[["Facts"], Iterator[Flaw]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`title`, `why` and `fix` are the row of docs/verdicts.md; `source` says where the fact comes from."""

    id: str
    title: str
    why: str
    fix: str
    source: str
    backends: tuple[str, ...]
    check: Check

    @property
    def row(self) -> str:
        return f"| {self.id} | {self.title} | {self.why} | {self.fix} |"


_RULES: dict[str, Rule] = {}


def rule(
    id: str, *, title: str, why: str, fix: str, source: str, backends: tuple[str, ...] = ("verl",)
) -> Callable[[Check], Check]:
    """Registers a rule on recipes of some back-ends. Raises ValueError for an id that is taken."""

    def register(check: Check) -> Check:
        if id in _RULES:
            raise ValueError(f"{id} is the id of another rule")
        _RULES[id] = Rule(id, title, why, fix, source, backends, check)
        return check

    return register


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the modules and of their text."""
    for module in _MODULES:
        import_module(f"rlx.preflight.rules.{module}")
    return tuple(_RULES.values())


def error(message: str, fix: str, key: str = "") -> Flaw:
    """The run would fail, or would not be what the recipe says."""
    return Flaw(Severity.ERROR, message, fix, key)


def warning(message: str, fix: str, key: str = "") -> Flaw:
    """It runs, and somebody should know first."""
    return Flaw(Severity.WARNING, message, fix, key)


def note(message: str, fix: str = "", key: str = "") -> Flaw:
    return Flaw(Severity.NOTE, message, fix, key)
