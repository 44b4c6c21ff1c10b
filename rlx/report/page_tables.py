"""The tables of a report: values by step, differences, versions, speed, items, and the noise records of each run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Any

from rlx.compare import ComparedArm, ComparedRun, Comparison, Contrast
from rlx.compare.device_report import DeviceReport, estimate_text
from rlx.compare.difference_areas import ConfigDifference
from rlx.compare.excluded_runs import ExcludedRun, excluded_sentence
from rlx.compare.findings import brief
from rlx.compare.metric import Unit
from rlx.compare.registered_answer import RegisteredResult
from rlx.compare.registered_question import secondary_values
from rlx.compare.sentences import moment_text
from rlx.compare.speed import Reached, median_step, reached
from rlx.evidence import Evidence, ItemScores, JudgedRun, NoiseEvent, gap_metric, series
from rlx.evidence.checks.noise_by_step import planned_sigmas, sigma_at
from rlx.evidence.run_evidence import VALIDATION
from rlx.evidence.verdict import counted, ranges
from rlx.report.multiples import Multiples
from rlx.report.picture import Curve, Picture
from rlx.table import Cell, Cells, Table, marked, table_of_rows

_MOST_ITEMS = 48
_SECTIONS = {
    "model": "model ",
    "packages": "",
    "ascend": "ascend ",
    "commits": "commit of ",
    "changes": "uncommitted changes of ",
}
_SINGLE = ("python", "platform", "image", "git_commit")
_MOST_ROWS = 60
_MOST_FACTS = 20


def values_table(comparison: Comparison, drawn: Picture) -> Table:
    """Show one row per validated step, and each arm's peak, which is informational."""
    points = [{point.step: point for point in curve.points} for curve in drawn.curves]
    unit = Unit(comparison.is_share)
    rows: list[Cells] = []
    for row in comparison.steps:
        cells = [
            Cell("") if (point := by_step.get(row.step)) is None else _value(drawn, arm, point)
            for arm, by_step in zip(comparison.arms, points, strict=True)
        ]
        rows.append((str(row.step), *cells, *_differences(comparison, row.values, unit)))
    peaks = (_peak(drawn, arm) for arm in comparison.arms)
    rows.append(("peak (informational)", *peaks, *("" for _ in comparison.treatments)))
    names = (
        marked(f"{arm.label} − {comparison.control.label}", word)
        for arm, word in zip(comparison.treatments, comparison.difference_qualifiers(), strict=True)
    )
    unit_name = " in points" if comparison.is_share else ""
    intervals = ", with 95 % intervals" if drawn.intervals else ""
    caption = f"{comparison.metric} by training step{intervals}; differences{unit_name}"
    return table_of_rows(("step", *(curve.name for curve in drawn.curves), *names), rows, caption, right=True)


def runs_table(comparison: Comparison, drawn: Picture) -> Table | None:
    """Show the values of every run, by which arms of several seeds are judged; None where no arm has several."""
    if all(len(arm.runs) == 1 for arm in comparison.arms):
        return None
    steps = sorted({step for run in comparison.runs for step in run.series})
    rows: list[Cells] = [(str(step), *(_run_value(drawn, run, step) for run in comparison.runs)) for step in steps]
    names = (marked(run.label, run.word) for run in comparison.runs)
    return table_of_rows(("step", *names), rows, f"{comparison.metric} of each run", right=True)


def _run_value(drawn: Picture, run: ComparedRun, step: int) -> Cell:
    value = run.series.get(step)
    return Cell("" if value is None else drawn.value_text(value), exclusion=run.exclusion)


def _value(drawn: Picture, arm: ComparedArm, point: Any) -> Cell:
    bounds = "" if point.low is None else f"{drawn.bound_text(point.low)} to {drawn.bound_text(point.high)}"
    return Cell(drawn.value_text(point.value), bounds, arm.exclusion)


def _differences(comparison: Comparison, values: Sequence[float | None], unit: Unit) -> Iterator[Cell]:
    control = values[0]
    for value, exclusion in zip(values[1:], comparison.difference_exclusions(), strict=True):
        yield Cell("" if value is None or control is None else unit.signed(value - control), exclusion=exclusion)


def _peak(drawn: Picture, arm: ComparedArm) -> Cell:
    if arm.peak is None:
        return Cell("")
    return Cell(drawn.value_text(arm.peak.value), f"at step {arm.peak.step}", arm.exclusion)


def difference_tables(contrast: Contrast, control: str) -> list[Table]:
    """Show the declared treatment, and everything else that differs, with its subject."""
    parts = (
        (f"Declared treatment of {contrast.treatment}", [each for each in contrast.differences if each.declared]),
        ("What else differs", [each for each in contrast.differences if not each.declared]),
    )
    return [
        table_of_rows(("key", control, contrast.treatment, "about"), [*map(_difference, found)], caption)
        for caption, found in parts
        if found
    ]


def _difference(each: ConfigDifference) -> Cells:
    return each.key, brief(each.control, 400), brief(each.treatment, 400), each.area.value


def versions_table(runs: Sequence[JudgedRun], labels: Sequence[str]) -> Table:
    """Show what each run found on its host when it started; first what differs between them."""
    facts = [dict(_facts(run.provenance)) for run in runs]
    names = sorted({name for known in facts for name in known})
    rows = []
    for name in names:
        values = [known.get(name, "") for known in facts]
        # A run that recorded nothing differs in nothing.
        differs = len({value for value in values if value}) > 1
        rows.append((not differs, name, [Cell(value, differs=differs) for value in values]))
    ordered: list[Cells] = [(name, *cells) for _, name, cells in sorted(rows, key=lambda row: row[:2])]
    caption = "Versions and code, as each run found them when it started"
    return table_of_rows(("what", *labels), ordered, caption)


def training_table(found: Multiples) -> Table | None:
    """Show where each training curve ends, mean and range over the seeds; None where none is drawn."""
    if not found.pictures:
        return None
    rows: list[Cells] = [(drawn.metric, *(_end(drawn, curve) for curve in drawn.curves)) for drawn in found.pictures]
    names = (curve.name for curve in found.pictures[0].curves)
    caption = "Where each curve ends: mean over the seeds, from the lowest to the highest"
    return table_of_rows(("metric", *names), rows, caption, right=True)


def _end(drawn: Picture, curve: Curve) -> Cell:
    if not curve.points:
        return Cell("–")
    last = curve.points[-1]
    bounds = "" if last.low is None or last.high is None else f"{last.low:.4g} to {last.high:.4g}, "
    return Cell(drawn.value_text(last.value), f"{bounds}step {last.step}", curve.word if curve.excluded else "")


def _facts(provenance: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _SINGLE:
        if provenance.get(name):
            yield name.replace("_", " "), brief(provenance[name], 120)
    for section, word in _SECTIONS.items():
        found = provenance.get(section)
        if isinstance(found, Mapping):
            yield from ((f"{word}{name}", brief(value, 120)) for name, value in found.items() if value)


def speed_table(comparison: Comparison) -> Table | None:
    """Show how fast each run was; None where no run logged it."""
    runs = comparison.runs
    if all(run.seconds_per_step is run.tokens_per_second is run.training_seconds is None for run in runs):
        return None
    rows = [
        (
            run.label,
            _number(run, run.seconds_per_step, ".3g"),
            _number(run, run.tokens_per_second, ",.0f"),
            _number(run, run.training_seconds and run.training_seconds / 60, ".3g"),
            f"{run.load.minute:.2g} of {run.load.processors}" if run.load else "–",
        )
        for run in runs
    ]
    headings = (
        "run",
        "seconds per step",
        "tokens per second",
        "minutes of all steps",
        "load of its host before the run",
    )
    caption = "Medians over the steps of each run, and all its steps together"
    return table_of_rows(headings, rows, caption, right=True)


def _number(run: ComparedRun, value: float | None, form: str) -> Cell:
    if value is None:
        return Cell("–")
    return Cell(format(value, form), exclusion=run.exclusion)


def device_table(report: DeviceReport) -> Table:
    """Show the highest memory in each phase of a run, beside the plan's estimate of it."""
    use = report.use
    rows = [(peak.phase, peak.gib, peak.samples, estimate_text(report, peak.phase)) for peak in use.phases]
    rows.append(("all", use.peak, use.samples, "–" if use.total is None else f"a device has {use.total:.1f}"))
    cells = [(phase, f"{gib:.1f}", str(count), text) for phase, gib, count, text in rows]
    busy = "" if use.busy is None else f"; utilisation {use.busy:.0f} % on average"
    caption = f"{report.label}: memory of {use.what} by phase, GiB{busy}"
    return table_of_rows(("phase", "highest seen", "samples", "estimated"), cells, caption, right=True)


def secondary_table(found: RegisteredResult, judged: Sequence[JudgedRun]) -> Table | None:
    """Show what was registered as secondary, mean and range over the runs of each arm; None where nothing was."""
    values = secondary_values(found, judged)
    asked = found.registration
    caption = f"Registered as secondary, {moment_text(asked)} unless stated otherwise: informational"
    rows: list[Cells] = [(each.name, *map(_of_runs, each.arms, each.runs)) for each in values]
    return table_of_rows(("metric", asked.control, *asked.treatments), rows, caption, right=True) if rows else None


def _of_runs(values: Sequence[float], runs: int) -> Cell:
    if not values:
        return Cell("–", f"none of {runs} runs")
    span = f"{min(values):.4g} to {max(values):.4g}"
    return Cell(f"{fmean(values):.5g}", f"{span}, {len(values)} of {runs} runs")


def reach_table(comparison: Comparison, judged: Sequence[JudgedRun], value: float) -> Table:
    """Show when each run reached a value, and the median step of each arm."""
    evidence = {run.run_id: run.evidence for run in judged}
    rows: list[Cells] = []
    for arm in comparison.arms:
        found = [reached(run, evidence[run.run_id], value) for run in arm.runs]
        rows += [(each.label, *_reached(run, each)) for run, each in zip(arm.runs, found, strict=True)]
        rows += [_of_arm(arm, found)] if len(arm.runs) > 1 else []
    caption = (
        f"First of two consecutive validations with {comparison.metric} at {value:g} or above. Exploratory, without a "
        "test: equal arms with different scatter reach a value at different times"
    )
    return table_of_rows(("run", "step", "minutes of its steps"), rows, caption, right=True)


def _reached(run: ComparedRun, found: Reached) -> tuple[Cell, Cell]:
    if found.step is None:
        return Cell("never", f"in the validations up to step {found.last}", run.exclusion), Cell("–")
    minutes = Cell("–") if found.seconds is None else Cell(f"{found.seconds / 60:.3g}", exclusion=run.exclusion)
    return Cell(str(found.step), exclusion=run.exclusion), minutes


def _of_arm(arm: ComparedArm, found: Sequence[Reached]) -> Cells:
    step, times = median_step(found), sum(each.step is not None for each in found)
    said = f"reached by {times} of {len(found)}"
    text = Cell("no median", said) if step is None else Cell(f"{step:g}", f"median; {said}", arm.exclusion)
    return f"{arm.label}, all runs", text, ""


def left_out_table(runs: Sequence[ExcludedRun]) -> Table | None:
    """Show the runs of the experiment that are not compared, and who left each out; None where none is."""
    if not runs:
        return None
    headings = ("run", "arm", "seed", "state", "launched", "left out by", "because")
    rows = [
        (run.run_id, run.arm, str(run.seed), run.state or "never seen", run.moment, run.by.value, run.why)
        for run in runs
    ]
    return table_of_rows(headings, rows, excluded_sentence(runs))


def items_table(control: ItemScores, treatment: ItemScores, labels: tuple[str, str]) -> Table:
    """Show the items whose mean score changed, the largest changes first."""
    left, right = control.means, treatment.means
    changed = [key for key in left.keys() & right.keys() if left[key] != right[key]]
    changed.sort(key=lambda key: (-abs(right[key] - left[key]), right[key] - left[key], key))
    better = sum(right[key] > left[key] for key in changed)
    both = len(left.keys() & right.keys())
    caption = (
        f"Step {control.step}: of {both} items that both answered, {better} better and {len(changed) - better} worse "
        f"with {labels[1]}, {both - len(changed)} the same"
    )
    shown = changed[:_MOST_ITEMS]
    rows = [(control.prompt(key) or key, f"{left[key]:.4g}", f"{right[key]:.4g}") for key in shown]
    return table_of_rows(("item", *labels), rows, caption, len(changed) - len(shown), right=True)


@dataclass(frozen=True, slots=True)
class RecordRow:
    """The records of consecutive steps with equal content, ready to be shown.

    `expected`: as planned, for information only; the verdict decides what follows.
    """

    steps: str
    phase: str
    planned: str
    applied: str
    layers: str
    changed: str
    gap: str
    source: str
    expected: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of one phase with its records."""

    step: int
    phase: str
    planned: float
    events: tuple[NoiseEvent, ...]

    @property
    def says(self) -> tuple[str, str, str, str]:
        """The facts that must be equal for steps to share a row."""
        return (self.phase, _sigma(self.planned), _applied_sigmas(self.events), _layer_words(self.events))


def record_rows(run: JudgedRun) -> tuple[list[RecordRow], int]:
    """Make the rows, at most some dozens, and count the others. No rows for a run without noise or records."""
    logged = series(run.evidence, gap_metric(run.evidence, run.plan.expectations.witness))
    gaps = {step: abs(gap) for step, gap in logged.items()}
    groups = (list(group) for _, group in groupby(_planned_steps(run), key=lambda step: step.says))
    rows = [_record_row(group, gaps) for group in groups]
    return rows[:_MOST_ROWS], max(0, len(rows) - _MOST_ROWS)


def _planned_steps(run: JudgedRun) -> Iterator[_Step]:
    """Yield every step with a plan or a record: rollouts first, then validations."""
    noise, evidence = run.plan.expectations.noise, run.evidence
    sigmas = planned_sigmas(noise, evidence) if noise else ()
    by_step: dict[tuple[bool, int], list[NoiseEvent]] = defaultdict(list)
    for event in evidence.noise:
        # The last sync prepares a rollout that never comes.
        if event.step is not None and event.step <= evidence.last_step:
            by_step[event.phase == VALIDATION, event.step].append(event)
    for step in range(1, min(len(sigmas), evidence.last_step) + 1):
        by_step.setdefault((False, step), [])
    for (validation, step), events in sorted(by_step.items(), key=lambda item: item[0]):
        if validation:
            yield _Step(step, "validation", math.nan if noise and noise.in_validation else 0.0, tuple(events))
        else:
            yield _Step(step, "rollout", sigma_at(sigmas, step), tuple(events))


def _record_row(steps: Sequence[_Step], gaps: Mapping[int, float]) -> RecordRow:
    events = [event for step in steps for event in step.events]
    seen = [gaps[step.step] for step in steps if math.isfinite(gaps.get(step.step, math.nan))]
    first = steps[0]
    return RecordRow(
        steps=ranges(step.step for step in steps),
        phase=first.phase,
        planned="as declared" if math.isnan(first.planned) else _sigma(first.planned),
        applied=_applied_sigmas(first.events),
        layers=_layer_words(first.events),
        changed=_changed_share(events),
        gap=f"{median(seen):.2g}" if seen and first.phase == "rollout" else "",
        source=", ".join(sorted({event.source for event in events})),
        expected=_as_planned(first),
    )


def _as_planned(step: _Step) -> bool:
    if math.isnan(step.planned):
        return True
    if not step.planned:
        return not any(event.is_noisy for event in step.events)
    return _applied_sigmas(step.events) == _sigma(step.planned)


def _sigma(sigma: float) -> str:
    return "?" if math.isnan(sigma) else f"{sigma:.4g}"


def _applied_sigmas(events: Sequence[NoiseEvent]) -> str:
    """Write the sigma of the last sync of a step; of processes that differ, all values."""
    if not events:
        return "no record"
    return ", ".join(sorted({_sigma(event.sigma if event.layers else 0.0) for event in events}))


def _layer_words(events: Sequence[NoiseEvent]) -> str:
    return ", ".join(sorted({f"{event.layers} {event.kind}".strip() for event in events}))


def _changed_share(events: Sequence[NoiseEvent]) -> str:
    """Compute the share of the weights that still differed after rounding."""
    shares = [
        event.changed / event.elements
        for event in events
        if event.changed is not None and event.elements and event.is_noisy
    ]
    if not shares:
        return ""
    low, high = f"{100 * min(shares):.3g}", f"{100 * max(shares):.3g}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def log_facts(evidence: Evidence) -> list[tuple[str, str]]:
    """List what the log states of the run as (what, value): totals, ends, restarts, contradictions."""
    totals = evidence.totals
    facts = [
        ("last step with metrics", str(evidence.last_step)),
        ("planned steps by the log", _or_unsaid(evidence.total_steps)),
        ("rows of training data", _or_unsaid(totals.train_rows)),
        ("rows of validation data", _or_unsaid(totals.validation_rows)),
    ]
    if evidence.progress:
        facts.append(("progress bar", f"{evidence.progress.done} of {evidence.progress.total}"))
    if evidence.attempts > 1:
        facts.append(("attempts", str(evidence.attempts)))
    facts += [("restart", f"attempt {each.attempt}, step {each.step}: {each.reason}") for each in evidence.restarts]
    facts += [
        (f"contradiction at step {each.step}", f"{each.key}: {_both_values(each.sources, each.values)}")
        for each in evidence.disagreements[:_MOST_FACTS]
    ]
    if unplaced := sum(event.step is None for event in evidence.noise):
        facts.append(("noise lines without a step", counted(unplaced, "line")))
    return facts


def _both_values(sources: tuple[str, str], values: tuple[float, float]) -> str:
    return " and ".join(f"{source} {value:.6g}" for source, value in zip(sources, values, strict=True))


def _or_unsaid(number: int | None) -> str:
    return "not in the log" if number is None else str(number)
