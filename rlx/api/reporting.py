"""Write everything that is known of runs as one page, to be shared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.generated_files import check_target, made_by, replace_file
from rlx.api.judged_comparison import Compared, Uncompared
from rlx.api.runs import unheard
from rlx.errors import ExitCode, NoSuchRun, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.api.runs import Run, Tell
    from rlx.compare.device_report import DeviceReport
    from rlx.evidence import ItemTexts, JudgedRun
    from rlx.evidence.diagnosis import Diagnosis
    from rlx.model import LaunchPlan
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
    from rlx.api.runs import arm_name

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
    from rlx.api.runs import open_index

    check_target(path)
    index = open_index()
    found = found_runs(index, names, seeds, metric, tell, systems)
    _check_reach(found, reach)
    write_page(path, index, found, curves, reach)
    return found


def _check_reach(found: Compared | Uncompared, reach: float | None) -> None:
    """Refuse a share that no run can reach, mostly a percentage: its table would look like a result."""
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
    """Return the comparison; where no metric allows one, the runs with their verdicts and evidence."""
    from rlx.api.comparing import contrast, registered_question, select, with_words
    from rlx.api.judged_comparison import beside_control, judged_arms

    selected = select(index, names, _arms(index, names, seeds, tell), tell)
    judged = judged_arms(index, selected.arms, tell)
    if len(names) < 2:
        # The control was not named; the recipe declares it.
        order = sorted(range(len(judged)), key=lambda arm: judged[arm][0].arm != judged[arm][0].plan.control)
        selected = replace(selected, arms=[selected.arms[arm] for arm in order])
        judged = [judged[arm] for arm in order]
    arms = beside_control(index, judged)
    try:
        question = registered_question(index, selected, arms, tell)
        compared = contrast(index, selected, arms, question, metric, tell, systems)
        return with_words(index, compared, selected, arms)
    except RlxError as problem:
        if problem.exit_code not in (ExitCode.NOT_VERIFIED, ExitCode.NOT_FINISHED):
            raise
        return Uncompared([*chain(*arms)], problem.message, problem.exit_code, selected.left_out)


def _arms(index: Index, names: Sequence[str], seeds: Collection[int], tell: Tell) -> list[tuple[RunRef, ...]]:
    """Make each of several names an arm; one name or none may mean all arms of a launch. Raises NoSuchRun."""
    from rlx.api.comparing import select_arms
    from rlx.api.runs import runs_or_latest

    if len(names) > 1:
        return select_arms(index, names, seeds, tell)
    found = [ref for ref in runs_or_latest(index, names or None) if not seeds or ref.seed in seeds]
    if not found:
        raise NoSuchRun(f"no such run with seed {' or '.join(map(str, seeds))}", "leave out --seed")
    return [tuple(ref for ref in found if ref.arm == arm) for arm in dict.fromkeys(ref.arm for ref in found)]


def device_reports(runs: Sequence[JudgedRun], labels: Mapping[str, str]) -> tuple[DeviceReport, ...]:
    """Return a report for each run that was sampled, and for its other nodes. `labels`: what a run is called, by its
    id.
    """
    return tuple(report for run in runs for report in _reports(run, labels.get(run.run_id, run.name)))


def _reports(run: JudgedRun, label: str) -> Iterator[DeviceReport]:
    """Yield the report of the head, which knows the steps and so the phases, and those of the other nodes."""
    from rlx.compare.device_report import DeviceReport
    from rlx.evidence.device_use import device_use

    if use := device_use(run.usage, run.evidence):
        yield DeviceReport(run.run_id, label, use, _estimated(run.plan))
    for name, usage in run.usage_of_others.items():
        if use := device_use(usage, run.evidence):
            yield DeviceReport(run.run_id, f"{label}, {name}", use, {})


def _estimated(plan: LaunchPlan) -> Mapping[str, tuple[float, float]]:
    """Return the estimate by phase, with the memory of the driver, which npu-smi counts."""
    from rlx.api.launching import recipe_of
    from rlx.errors import UsageError
    from rlx.planning.rules.facts import facts_of

    if plan.device_kind == "cpu":
        return {}
    try:
        resolved = recipe_of(plan)
        found = facts_of(resolved).memory if resolved else None
    except UsageError:
        return {}
    if found is None:
        return {}
    kept = max(0.0, found.job.device.size - found.capacity) if plan.device_kind == "npu" else 0.0
    return {phase.name: (phase.lower + kept, phase.upper + kept) for phase in found.phases}
