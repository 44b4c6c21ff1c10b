"""Write everything that is known of some runs as one page, to be passed on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.derived_files import check_target, made_by, replace_file
from rlx.api.judged_comparison import Compared, Uncompared
from rlx.api.telling import unheard
from rlx.errors import ExitCode, NoSuchRun, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.api.selection import Run
    from rlx.api.telling import Tell
    from rlx.evidence import ItemTexts, JudgedRun
    from rlx.evidence.diagnosis import Diagnosis
    from rlx.runs import Index, RunRef


def report(
    path: str | Path = "report.html",
    *arms: Run | Sequence[Run],
    metric: str | None = None,
    seeds: Collection[int] = (),
    curves: Sequence[str] = (),
    reach: float | None = None,
    systems: bool = False,
    tell: Tell = unheard,
) -> Path:
    """Write one HTML page that opens offline: summary, curves, verdicts with their evidence, items, time, versions.

    Without arms all those of the latest launch; with one name all the arms that it means; with several the control is
    the first. A page written before is replaced, any other file is not. What may be reported stands in the page.
    `curves`: patterns of the metrics whose training curves are shown, by default those that show how a training
    goes. `reach`: a value of the metric, of which the page says when each run reached it. `systems`: as for
    `compare`. Raises UsageError for patterns that fit no metric and a share above 1 to reach, RlxError where the
    file is not rlx's own or cannot be written, NoSuchRun for unknown names.
    """
    from rlx.api.selection import arm_name

    report_named(Path(path), [arm_name(arm) for arm in arms], metric, seeds, curves, reach, tell, systems)
    return Path(path)


def report_named(
    path: Path,
    names: Sequence[str],
    metric: str | None,
    seeds: Collection[int],
    curves: Sequence[str],
    reach: float | None,
    tell: Tell,
    systems: bool = False,
) -> Compared | Uncompared:
    """Write the page of the arms that the names mean; what it shows. Raises what `rlx.report` raises."""
    from rlx.api.selection import open_index

    check_target(path)
    index = open_index()
    found = found_runs(index, names, seeds, metric, tell, systems)
    _check_reach(found, reach)
    write_page(path, index, found, curves, reach)
    return found


def _check_reach(found: Compared | Uncompared, reach: float | None) -> None:
    """A share that no run can reach is percent, mostly: a table of runs that never did would be believed."""
    from math import isfinite

    if reach is None or not isinstance(found, Compared):
        return
    if not isfinite(reach) or (found.comparison.is_share and reach > 1):
        raise UsageError(
            f"--reach {reach:g}: values of {found.comparison.metric} never get there", "shares go up to 1: --reach 0.7"
        )


def write_page(
    path: Path, index: Index, found: Compared | Uncompared, curves: Sequence[str] = (), reach: float | None = None
) -> None:
    """Write the page of a comparison, or of runs that no metric brings together."""
    import time

    from rlx.api.device_reports import device_reports
    from rlx.report import Report, html

    # With the distance from UTC: a report is read elsewhere.
    made = time.strftime("%Y-%m-%d %H:%M %z")
    diagnoses, left_out = _diagnoses(index, found.runs), found.left_out
    page = Report(found.runs, None, made, made_by(), diagnoses=diagnoses, left_out=left_out, curves=curves, reach=reach)
    labels = {run.run_id: run.label for run in found.comparison.runs} if isinstance(found, Compared) else {}
    page = replace(page, devices=device_reports(found.runs, labels))
    if isinstance(found, Compared):
        page = replace(page, comparison=found.comparison, items=found.items, texts=_texts(index, found))
    else:
        page = replace(page, problem=found.problem)
    replace_file(path, html(page).encode())


def _texts(index: Index, found: Compared) -> dict[str, dict[str, ItemTexts]]:
    """Read the answers that the page shows side by side, by run id and item."""
    from rlx.report import items_to_read
    from rlx.runs import resolve, texts_of

    texts: dict[str, dict[str, ItemTexts]] = {}
    for step, ids, items in items_to_read(found.comparison, found.runs, found.items):
        own = texts_of(index, resolve(index, ids), step, found.comparison.metric, items)
        for run_id, answers in own.items():
            texts[run_id] = texts.get(run_id, {}) | answers
    return texts


def _diagnoses(index: Index, runs: Sequence[JudgedRun]) -> dict[str, Diagnosis]:
    """Diagnose runs that did not finish by their logs. A host that cannot be asked leaves its runs out.

    A run that waits for its devices has no log yet.
    """
    from rlx.model import RunState
    from rlx.runs import resolve
    from rlx.runs.judging.diagnose_runs import diagnose_runs

    ids = [run.run_id for run in runs if run.state not in (RunState.FINISHED, RunState.QUEUED)]
    found = diagnose_runs(index, resolve(index, ids)) if ids else []
    return {each.row.ref.run_id: each.diagnosis for each in found if each.row is not None and each.problem is None}


def found_runs(
    index: Index,
    names: Sequence[str],
    seeds: Collection[int],
    metric: str | None,
    tell: Tell,
    systems: bool = False,
) -> Compared | Uncompared:
    """The comparison; where no metric allows one, verdicts and evidence of the runs still say what happened."""
    from rlx.api.comparing import compare_asked, with_left_out
    from rlx.api.judged_comparison import beside_control, judged_arms
    from rlx.api.left_out import left_out_runs, with_records, without_records
    from rlx.api.removing import removal_notes

    refs, gone = with_records(index, _arms(index, names, seeds, tell), tell)
    left_out = without_records(left_out_runs(index, names, refs), gone)
    for note in removal_notes(index, chain(*refs)):
        tell(note)
    judged = judged_arms(index, refs, tell)
    if len(names) < 2:
        # Nobody said which arm is the control, but their recipe did.
        order = sorted(range(len(refs)), key=lambda arm: judged[arm][0].arm != judged[arm][0].plan.control)
        refs, judged = [refs[arm] for arm in order], [judged[arm] for arm in order]
    arms = beside_control(index, judged)
    try:
        return with_left_out(compare_asked(index, refs, arms, metric, tell, systems), left_out)
    except RlxError as problem:
        if problem.exit_code not in (ExitCode.NOT_VERIFIED, ExitCode.NOT_FINISHED):
            raise
        return Uncompared([*chain(*arms)], problem.message, problem.exit_code, left_out)


def _arms(index: Index, names: Sequence[str], seeds: Collection[int], tell: Tell) -> list[tuple[RunRef, ...]]:
    """Make each of several names an arm; one name or none may mean all arms of a launch. Raises NoSuchRun."""
    from rlx.api.arm_names import select_arms
    from rlx.api.selection import runs_or_latest

    if len(names) > 1:
        return select_arms(index, names, seeds, tell)
    found = [ref for ref in runs_or_latest(index, names or None) if not seeds or ref.seed in seeds]
    if not found:
        raise NoSuchRun(f"no such run with seed {' or '.join(map(str, seeds))}", "leave out --seed")
    return [tuple(ref for ref in found if ref.arm == arm) for arm in dict.fromkeys(ref.arm for ref in found)]
