"""Waive findings of finished runs with a reason and a name, and revoke waivers; both are shown with the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.errors import NoSuchRun, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.api.runs import Runs
    from rlx.evidence import JudgedRun
    from rlx.evidence.verdict import Waiver
    from rlx.runs import Index


@dataclass(frozen=True, slots=True)
class Waived:
    """The waivers of a run after the change, and its verdict in one line."""

    run_id: str
    waivers: tuple[Waiver, ...]
    sentence: str


def waive(runs: Runs, ids: Sequence[str], *, because: str, by: str = "") -> list[Waived]:
    """Accept findings of finished runs, such as RLX705. A finding that is waived again gets the new reason.

    `by`: who does; default: the user and machine. Raises, before anything is written, NoSuchRun for an unknown run,
    UsageError for a missing reason, an unknown id or a run that has not ended, RlxError for a finding that a run does
    not have or that cannot be waived: a contradiction, or what is missing.
    """
    import time

    from rlx.api.runs import open_index
    from rlx.evidence.verdict import Waiver
    from rlx.model.verdict_rules import RULES
    from rlx.runs.index.kept_waivers import read_waivers, write_waivers
    from rlx.runs.index.labels import checked_note
    from rlx.runs.manifest import submitter
    from rlx.runs.run import utc_text

    reason, who = checked_note(because), checked_note(by) or "{user}@{machine}".format(**submitter())
    if not reason:
        raise UsageError("a waiver needs a reason", 'rlx waive RUN RLX705 --because "the filter drops three rows"')
    _check_ids(ids)
    index = open_index()
    judged = _judged(index, runs)
    for run in judged:
        for id in ids:
            _check_waivable(run, id)
    at = utc_text(time.time())
    for run in judged:
        attempt = run.latest.name if run.latest else ""
        new = [Waiver(id, reason, who, at, RULES, attempt) for id in dict.fromkeys(ids)]
        others = [each for each in read_waivers(index.home, run.run_id) if each.id not in ids]
        write_waivers(index.home, run.run_id, [*others, *new])
    return _after(index, judged)


def unwaive(runs: Runs, ids: Sequence[str]) -> list[Waived]:
    """Revoke waivers: the inverse of `waive`. Raises RlxError, before anything is written, where one does not exist."""
    from rlx.api.runs import open_index
    from rlx.runs.index.kept_waivers import read_waivers, write_waivers

    _check_ids(ids)
    index = open_index()
    judged = _judged(index, runs)
    known = {run.run_id: read_waivers(index.home, run.run_id) for run in judged}
    for run_id, waivers in known.items():
        if lacking := [id for id in ids if id not in {each.id for each in waivers}]:
            raise RlxError(f"{run_id}: {' and '.join(lacking)} is not waived", f"rlx status -v {run_id} shows what is")
    for run_id, waivers in known.items():
        write_waivers(index.home, run_id, [each for each in waivers if each.id not in ids])
    return _after(index, judged)


def _check_ids(ids: Sequence[str]) -> None:
    from rlx.findings import finding_ids

    if not ids:
        raise UsageError("waive which finding?", "name its id: rlx waive RUN RLX705 --because TEXT")
    known = finding_ids()
    if unknown := [id for id in ids if id not in known]:
        raise UsageError(f"{unknown[0]} is no finding of rlx", "rlx status -v shows the ids of a run")


def _judged(index: Index, runs: Runs) -> list[JudgedRun]:
    from rlx.api.runs import runs_or_latest
    from rlx.runs.judging.judge_runs import judge_runs

    refs = list({ref.head_id: ref for ref in runs_or_latest(index, runs)}.values())
    if not refs:
        raise NoSuchRun("no run is called so", "rlx status -a lists all")
    return judge_runs(index, refs)


def _check_waivable(run: JudgedRun, id: str) -> None:
    if not run.state.is_terminal:
        raise UsageError(f"{run.run_id} is {run.state}: only findings of a run that has ended are waived", "rlx wait")
    found = [finding for finding in run.verdict.findings if finding.id == id]
    if not found:
        others = ", ".join(dict.fromkeys(finding.id for finding in run.verdict.findings)) or "none"
        raise RlxError(f"{run.run_id} has no finding {id}", f"it has: {others}")
    if id not in (*run.verdict.waivable, *run.verdict.waived):
        raise RlxError(
            f"{run.run_id}: {id} cannot be waived: {found[0].message}",
            "a waiver accepts a judgement: no contradiction between two records, and nothing that is missing",
        )


def _after(index: Index, judged: Sequence[JudgedRun]) -> list[Waived]:
    from rlx.api.runs import runs_or_latest
    from rlx.runs.index.kept_waivers import read_waivers
    from rlx.runs.judging.judge_runs import judge_runs

    again = judge_runs(index, runs_or_latest(index, [run.run_id for run in judged]))
    return [Waived(run.run_id, read_waivers(index.home, run.run_id), run.verdict.sentence) for run in again]
