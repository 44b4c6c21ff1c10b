"""The verdict on a run as a value: what may be believed of it. The judging is elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from rlx.evidence.traces import KeyTrace
from rlx.model import Finding, Severity
from rlx.model.verdict_rules import RULES

CONTRADICTED = "contradicted"


class VerdictStatus(StrEnum):
    """invalid > incomplete > unverified > valid: the first that applies.

    invalid: the experiment that the plan describes did not take place. incomplete: it has not come to its end, or
    parts of its record are missing. unverified: nothing speaks against it, and not enough for it.
    """

    INVALID = "invalid"
    INCOMPLETE = "incomplete"
    UNVERIFIED = "unverified"
    VALID = "valid"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`sentence`: the verdict in one line for a person. `noise`: what was applied, short, for a table cell.

    `findings`: the worst first. A finding that does not change the status is a warning or a note. `dissent`: a witness
    of the run's own contradicts its record, so that its numbers are no result. `rules`: the version of the rules.
    `traces`: how the run shows the settings of its recipe. `waived`: the ids of findings that a person accepted after
    the end of the run; `waivable`: of those that may be.
    """

    status: VerdictStatus
    findings: tuple[Finding, ...]
    sentence: str
    noise: str
    dissent: bool = False
    rules: int = RULES
    traces: tuple[KeyTrace, ...] = field(default=(), compare=False)
    waived: tuple[str, ...] = ()
    waivable: tuple[str, ...] = field(default=(), compare=False)

    @property
    def word(self) -> str:
        """The word that goes with the numbers: the status, or that they are contradicted."""
        return CONTRADICTED if self.dissent and self.status is VerdictStatus.UNVERIFIED else self.status.value

    def is_result(self, *, ended: bool) -> bool:
        """Tell whether its numbers may stand. What a run that goes on lacks, or leaves in doubt, may still come."""
        if self.status is VerdictStatus.INVALID:
            return False
        return not ended or not (self.dissent or self.status is VerdictStatus.INCOMPLETE)

    def exclusion(self, *, ended: bool) -> str:
        """The word that excludes its numbers from all results; "" where they may stand."""
        return "" if self.is_result(ended=ended) else self.word


def without_evidence(why: str, rules: int = RULES) -> Verdict:
    """Return the verdict on a run whose evidence is missing: unverified, and why."""
    return Verdict(VerdictStatus.UNVERIFIED, (), f"{VerdictStatus.UNVERIFIED}: {why}", "?", rules=rules)


@dataclass(frozen=True, slots=True)
class Charge:
    """A finding and the status that it leads to; VALID where it changes nothing. `dissent`: see Verdict.

    `is_missing`: something is not there that no person can add, such as a recipe.
    """

    status: VerdictStatus
    finding: Finding
    dissent: bool = False
    is_missing: bool = False

    @property
    def can_be_waived(self) -> bool:
        """Tell whether a person may accept it: a judgement, no contradiction between records, and nothing missing."""
        if self.status not in (VerdictStatus.UNVERIFIED, VerdictStatus.VALID) or self.dissent or self.is_missing:
            return False
        return self.finding.severity is not Severity.NOTE


def invalid(id: str, message: str, fix: str = "", step: int | None = None) -> Charge:
    return Charge(VerdictStatus.INVALID, Finding(id, Severity.ERROR, message, fix, step=step))


def incomplete(id: str, message: str, fix: str = "", step: int | None = None) -> Charge:
    return Charge(VerdictStatus.INCOMPLETE, Finding(id, Severity.ERROR, message, fix, step=step))


def unverified(id: str, message: str, fix: str = "", step: int | None = None) -> Charge:
    return Charge(VerdictStatus.UNVERIFIED, Finding(id, Severity.WARNING, message, fix, step=step))


def dissent(id: str, message: str, fix: str = "", step: int | None = None) -> Charge:
    """Charge what the run's own evidence contradicts: unverified, and no result."""
    return Charge(VerdictStatus.UNVERIFIED, Finding(id, Severity.WARNING, message, fix, step=step), dissent=True)


def remark(id: str, severity: Severity, message: str, fix: str = "", step: int | None = None) -> Charge:
    return Charge(VerdictStatus.VALID, Finding(id, severity, message, fix, step=step))


def ranges(steps: Iterable[int]) -> str:
    """Step numbers for a person: `1-4, 7`."""
    runs: list[list[int]] = []
    for step in sorted(set(steps)):
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def at_steps(steps: Iterable[int]) -> str:
    """`step 7` or `steps 1-4, 7`."""
    unique = set(steps)
    return f"step{'s' if len(unique) > 1 else ''} {ranges(unique)}"


def percent(share: float) -> str:
    """Write a share in percent, rounded, but never to all or nothing."""
    text = f"{100 * share:.2g}" if abs(share) < 0.1 else f"{100 * share:.0f}"
    return f"{'<100' if text == '100' and share < 1 else text} %"


def counted(number: int, noun: str) -> str:
    """`1 validation`, `5 validations`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
