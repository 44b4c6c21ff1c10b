"""The verdict on a run: its status, its findings, what a person waived, and the outlook of a run in progress.

The values only; `rlx.evidence.judge` judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from rlx.evidence.device_use import NO_USAGE, RunUsage
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.traces import KeyTrace
from rlx.model import Finding, LaunchPlan, RunState, Severity
from rlx.model.verdict_rules import RULES, is_changed

CONTRADICTED = "contradicted"
ON_TRACK = "on track"
HOPELESS = "cannot become valid"
_INTERIM = "RLX906"
# A run without a recipe or a whole configuration is unverified at best, however it continues; else this is a note.
_NO_RECIPE = "RLX716"


class VerdictStatus(StrEnum):
    """invalid > incomplete > unverified > valid: the first that applies.

    invalid: the experiment that the plan describes did not take place. incomplete: it has not ended, or parts of its
    record are missing. unverified: nothing contradicts it, and the evidence is not sufficient.
    """

    INVALID = "invalid"
    INCOMPLETE = "incomplete"
    UNVERIFIED = "unverified"
    VALID = "valid"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`sentence`: the verdict in one line. `noise`: what was applied, in short, for a table cell.

    `findings`: the worst first. A finding that does not change the status is a warning or a note. `dissent`: the run's
    own evidence contradicts its record, so its numbers are not a result. `rules`: the version of the rules. `traces`:
    how the run shows the settings of its recipe. `waived`: the ids of findings that a person accepted after the end of
    the run; `waivable`: the ids of those that can be accepted.
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
        """The word that is printed with the numbers: the status, or that they are contradicted."""
        return CONTRADICTED if self.dissent and self.status is VerdictStatus.UNVERIFIED else self.status.value

    def is_result(self, *, ended: bool) -> bool:
        """Tell whether its numbers may be used. A run in progress may still produce what is missing or in doubt."""
        if self.status is VerdictStatus.INVALID:
            return False
        return not ended or not (self.dissent or self.status is VerdictStatus.INCOMPLETE)

    def exclusion(self, *, ended: bool) -> str:
        """Return the word that excludes its numbers from all results; "" where they may be used."""
        return "" if self.is_result(ended=ended) else self.word


def without_evidence(why: str, rules: int = RULES) -> Verdict:
    """Return the verdict on a run whose evidence is missing: unverified, and why."""
    return Verdict(VerdictStatus.UNVERIFIED, (), f"{VerdictStatus.UNVERIFIED}: {why}", "?", rules=rules)


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run, its plan, its evidence and its verdict: the input of comparisons and reports.

    `provenance`: versions and data digests as the run found them on its host; empty if they were not recorded.
    `submitted_by`: user, machine and version of rlx. `as_of`: when the evidence was read on the run's host, in seconds
    since 1970; None: now. `usage`: how the devices of its head were used, and `usage_of_others` those of its other
    nodes, by their names; read only for comparisons. `latest`: the local folder of its latest attempt.
    """

    run_id: str
    name: str
    arm: str
    seed: int
    plan: LaunchPlan
    evidence: Evidence
    verdict: Verdict
    state: RunState
    provenance: Mapping[str, Any]
    submitted_by: Mapping[str, str] = field(default_factory=dict)
    as_of: float | None = None
    usage: RunUsage = NO_USAGE
    usage_of_others: Mapping[str, RunUsage] = field(default_factory=dict)
    latest: Path | None = field(default=None, compare=False)


class Outlook(NamedTuple):
    """`word`: of an ended run its verdict's. `why`: the finding that decided it, with its id; "" if there is none."""

    word: str
    why: str = ""


def outlook(verdict: Verdict, state: RunState) -> Outlook:
    """Separate healthy runs in progress from those whose verdict is decided: an error at a past step remains."""
    if state.is_terminal or state is RunState.UNREACHABLE:
        return Outlook(verdict.word)
    still_open = [finding for finding in verdict.findings if finding.id != _INTERIM and not finding.waived]
    errors = [finding for finding in still_open if finding.severity is Severity.ERROR]
    why = next((f"{finding.message} ({finding.id})" for finding in errors or still_open), "")
    if errors:
        return Outlook(HOPELESS, why)
    if verdict.dissent:
        return Outlook(f"{CONTRADICTED} so far", why)
    has_no_plan = any(each.id == _NO_RECIPE and each.severity is not Severity.NOTE for each in still_open)
    if verdict.status is VerdictStatus.UNVERIFIED or has_no_plan:
        return Outlook(VerdictStatus.UNVERIFIED.value)
    return Outlook(ON_TRACK)


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A finding of a check, and the status that it leads to; VALID where it does not change the status.

    `contradicts`: the run's own evidence contradicts its record (`Verdict.dissent`). `is_missing`: something is absent
    that no person can add afterwards, such as a recipe.
    """

    status: VerdictStatus
    finding: Finding
    contradicts: bool = False
    is_missing: bool = False

    @property
    def can_be_waived(self) -> bool:
        """Tell whether a person may accept it: a judgement, no contradiction between records, and nothing missing."""
        if self.status not in (VerdictStatus.UNVERIFIED, VerdictStatus.VALID) or self.contradicts or self.is_missing:
            return False
        return self.finding.severity is not Severity.NOTE


def invalid(id: str, message: str, fix: str = "", step: int | None = None) -> CheckFinding:
    return CheckFinding(VerdictStatus.INVALID, Finding(id, Severity.ERROR, message, fix, step=step))


def incomplete(id: str, message: str, fix: str = "", step: int | None = None) -> CheckFinding:
    return CheckFinding(VerdictStatus.INCOMPLETE, Finding(id, Severity.ERROR, message, fix, step=step))


def unverified(id: str, message: str, fix: str = "", step: int | None = None) -> CheckFinding:
    return CheckFinding(VerdictStatus.UNVERIFIED, Finding(id, Severity.WARNING, message, fix, step=step))


def contradiction(id: str, message: str, fix: str = "", step: int | None = None) -> CheckFinding:
    """Report that the run's own evidence contradicts its record: unverified, and its numbers are not a result."""
    finding = Finding(id, Severity.WARNING, message, fix, step=step)
    return CheckFinding(VerdictStatus.UNVERIFIED, finding, contradicts=True)


def remark(id: str, severity: Severity, message: str, fix: str = "", step: int | None = None) -> CheckFinding:
    """Report what does not change the status."""
    return CheckFinding(VerdictStatus.VALID, Finding(id, severity, message, fix, step=step))


@dataclass(frozen=True, slots=True)
class Waiver:
    """The finding of this id, in this attempt of the run, was accepted by a person. `at`: when, in UTC.

    `rules`: the version of the rules that reported it then. If a later version changed the finding, the waiver does
    not apply.
    """

    id: str
    reason: str
    by: str
    at: str
    rules: int
    attempt: str


def waivable(findings: Iterable[CheckFinding]) -> tuple[str, ...]:
    """Return the ids of the findings that may be waived: each finding of the id must be a judgement."""
    made = list(findings)
    firm = {each.finding.id for each in made if not each.can_be_waived}
    return tuple(dict.fromkeys(each.finding.id for each in made if each.finding.id not in firm))


def with_waivers(
    findings: Sequence[CheckFinding], waivers: Iterable[Waiver]
) -> tuple[list[CheckFinding], tuple[str, ...]]:
    """Return the findings with the waived ones as notes, and the ids of the waived ones."""
    allowed = waivable(findings)
    applied = {each.id: each for each in waivers if each.id in allowed and not is_changed(each.id, each.rules)}

    def with_waiver(found: CheckFinding) -> CheckFinding:
        waiver = applied.get(found.finding.id)
        if waiver is None:
            return found
        who = f"waived by {waiver.by} on {waiver.at[:10]}, rules {waiver.rules}, because: {waiver.reason}"
        message = f"{found.finding.message} ({who})"
        note = replace(found.finding, severity=Severity.NOTE, message=message, fix="", waived=waiver.reason)
        return CheckFinding(VerdictStatus.VALID, note)

    return [with_waiver(each) for each in findings], tuple(sorted(applied))


def waived_words(ids: Sequence[str]) -> str:
    """Write `, with 2 findings waived (RLX705 and RLX706)`; "" without any."""
    return f", with {counted(len(ids), 'finding')} waived ({' and '.join(ids)})" if ids else ""


def ranges(steps: Iterable[int]) -> str:
    """Write step numbers as ranges: `1-4, 7`."""
    runs: list[list[int]] = []
    for step in sorted(set(steps)):
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def at_steps(steps: Iterable[int]) -> str:
    """Write `step 7` or `steps 1-4, 7`."""
    unique = set(steps)
    return f"step{'s' if len(unique) > 1 else ''} {ranges(unique)}"


def percent(share: float) -> str:
    """Write a share in percent, rounded, but never to all or nothing."""
    text = f"{100 * share:.2g}" if abs(share) < 0.1 else f"{100 * share:.0f}"
    return f"{'<100' if text == '100' and share < 1 else text} %"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Write `1 validation`, `5 validations`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
