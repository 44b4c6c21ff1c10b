"""Compare a control run with treatment runs: align, diff, test, and say what follows. Pure; prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rlx.compare.align import align, final, finite, last_common_step, peak
from rlx.compare.findings import pair_findings
from rlx.compare.found import differences
from rlx.compare.items import are_counts, is_share, item_count, why_not_binary
from rlx.compare.metric import choose_metric
from rlx.compare.proportions import TwoProportions, holm, two_proportions
from rlx.compare.values import ComparedRun, Comparison, Contrast, Pair
from rlx.compare.words import sentences
from rlx.evidence import JudgedRun, core_metric, series
from rlx.evidence.metrics import data_sources
from rlx.plan import Finding, Severity


def compare(control: JudgedRun, treatments: Sequence[JudgedRun], metric: str | None = None) -> Comparison:
    """Hold each treatment against the control at their last common validated step.

    `metric` is a full name or an unambiguous part of one; without it, the validation metric that the control's log
    shows. Raises UsageError for a metric that no log has or that fits several, RlxError while there is none at all.
    """
    judged = (control, *treatments)
    chosen = choose_metric(judged, metric)
    runs = _compared_runs(judged, chosen)
    pairs = [_pair(control, other, runs[0], run, chosen) for other, run in zip(treatments, runs[1:], strict=True)]
    not_binary = why_not_binary(chosen, len(data_sources(control.evidence)))
    shares = is_share(chosen, [value for run in runs for value in run.series.values()])
    return Comparison(
        metric=chosen,
        is_share=shares,
        control=runs[0],
        treatments=runs[1:],
        steps=align([run.series for run in runs]),
        contrasts=_with_words(pairs, [_contrast(pair, not_binary) for pair in pairs], shares),
    )


def _compared_runs(judged: Sequence[JudgedRun], metric: str) -> tuple[ComparedRun, ...]:
    return tuple(_compared_run(run, label, metric) for run, label in zip(judged, _labels(judged), strict=True))


def _compared_run(run: JudgedRun, label: str, metric: str) -> ComparedRun:
    values = finite(series(run.evidence, metric))
    expected = run.plan.expectations
    return ComparedRun(
        run_id=run.run_id,
        label=label,
        name=run.name,
        arm=run.arm,
        seed=run.seed,
        state=run.state,
        verdict=run.verdict,
        core_metric=core_metric(run.evidence, expected),
        items=item_count(expected.validation_items, run.evidence.totals.validation_rows),
        series=values,
        peak=peak(values),
        final=final(values),
    )


def _labels(runs: Sequence[JudgedRun]) -> tuple[str, ...]:
    """The arm where it is unique among these runs, else arm and seed, else the run name, else the id."""
    names = [(run.arm, f"{run.arm}-s{run.seed}", run.name, run.run_id) for run in runs]
    taken = [Counter(column) for column in zip(*names, strict=True)]
    return tuple(
        next((name for name, count in zip(own, taken, strict=True) if count[name] == 1), own[-1]) for own in names
    )


def _pair(
    judged_control: JudgedRun, judged: JudgedRun, control: ComparedRun, treatment: ComparedRun, metric: str
) -> Pair:
    return Pair(
        control=control,
        treatment=treatment,
        metric=metric,
        step=last_common_step(control.series, treatment.series),
        differences=differences(judged_control, judged),
    )


def _contrast(pair: Pair, not_binary: str) -> Contrast:
    findings = pair_findings(pair)
    comparable = not any(finding.severity is Severity.ERROR for finding in findings)
    control, treatment = (run.series.get(pair.step) if pair.step is not None else None for run in pair.runs)
    test = _why_no_test(pair, findings) or not_binary or _test(pair)
    return Contrast(
        treatment=pair.treatment.label,
        step=pair.step,
        control_value=control,
        treatment_value=treatment,
        difference=treatment - control if control is not None and treatment is not None else None,
        test=None if isinstance(test, str) else test,
        no_test=test if isinstance(test, str) else "",
        p_value=None if isinstance(test, str) else test.p_value,
        differences=pair.differences,
        findings=findings,
        reportable=comparable and pair.finished and not any(run.struck for run in pair.runs),
        sentences=(),
    )


def _why_no_test(pair: Pair, findings: Sequence[Finding]) -> str:
    """Why these two runs get no p-value, whatever the metric; "" where they may."""
    for run in pair.runs:
        if run.struck:
            return f"{run.label} is {run.verdict.status.value}"
    errors = (finding.message for finding in findings if finding.severity is Severity.ERROR)
    return next(errors, "" if pair.finished else "no p-value before both runs have finished")


def _test(pair: Pair) -> TwoProportions | str:
    """The test at the last common step, or why the values allow none."""
    n = pair.items.n
    if n is None or pair.step is None:
        return f"{pair.items.source} how many items the validation set has"
    for run in pair.runs:
        if not are_counts(run.series.values(), n):
            return f"the values of {run.label} are not multiples of 1/{n}: no shares of correct answers"
    control, treatment = (round(run.series[pair.step] * n) for run in pair.runs)
    return two_proportions(control, treatment, n)


def _with_words(pairs: Sequence[Pair], contrasts: Sequence[Contrast], is_share: bool) -> tuple[Contrast, ...]:
    """p-values corrected over all treatments that have one, then the sentences that follow from them."""
    raw = {index: contrast.p_value for index, contrast in enumerate(contrasts) if contrast.p_value is not None}
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    final = [replace(contrast, p_value=corrected.get(index)) for index, contrast in enumerate(contrasts)]
    return tuple(
        replace(contrast, sentences=sentences(pair, contrast, is_share, len(raw)))
        for pair, contrast in zip(pairs, final, strict=True)
    )
