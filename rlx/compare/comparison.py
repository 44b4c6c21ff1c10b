"""Compare a control arm with treatment arms: align, diff, test, and say what follows. Pure; prints nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rlx.compare.alignment import StepRow, finite, last_common_step
from rlx.compare.arms import ComparedArm, Runs, arm_differences, compared_arms, same_seed
from rlx.compare.comparison_values import COLLAPSED, Comparison, Contrast, Pair
from rlx.compare.difference_areas import CHAT_TEMPLATE
from rlx.compare.equal_runs import copies, equal_runs
from rlx.compare.evaluation_conditions import Measure, unrecorded
from rlx.compare.factors import shown_factors
from rlx.compare.findings import disputed_value, pair_findings, seed_findings
from rlx.compare.inference import choose_test, why_no_test
from rlx.compare.metric import choose_metric, is_share, why_not_binary
from rlx.compare.outputs import (
    BEFORE,
    NO_ITEMS,
    Items,
    MatchedItems,
    before_training,
    checked_against_outputs,
    copied_outputs,
    copy_findings,
    graded_alike,
    grading_mismatch,
    match_items,
    not_by_item,
    repeat_findings,
    why_no_shares,
)
from rlx.compare.run_differences import graded_apart, same_validation_items
from rlx.compare.sentences import sentences
from rlx.compare.statistic import holm
from rlx.evidence import series
from rlx.evidence.metrics import data_sources
from rlx.model import Finding, Severity
from rlx.model.verdict_rules import is_made

_NO_STEPS: Mapping[int, Items] = MappingProxyType({})


def compare(
    control: Runs,
    treatments: Sequence[Runs],
    metric: str | None = None,
    items: Mapping[int, Items] = _NO_STEPS,
    withheld: str = "",
    systems: bool = False,
) -> Comparison:
    """Compare each treatment arm with the control arm at the last step that all their runs have validated.

    An arm is its runs, one a seed. `metric` is a full name or an unambiguous part of one; without it, the validation
    metric that the control's log shows. Raises UsageError for a metric that no log has or that fits several, RlxError
    while there is none at all. `items`: scores per item by step, for the runs that `outputs_to_read` names.
    `withheld`: why no p-value and no interval is shown yet, as of a registered experiment that is not complete.
    `systems`: compare whole systems, whose every difference is listed and none credited.
    """
    judged = (control, *treatments)
    chosen = choose_metric([run for runs in judged for run in runs], metric)
    sources = len(data_sources(control[0].evidence, chosen))
    arms = tuple(checked_against_outputs(arm, items, sources) for arm in compared_arms(judged, chosen))
    pairs = [
        replace(_pair(arms[0], arm, control, runs, chosen, items, systems), withheld=withheld)
        for arm, runs in zip(arms[1:], treatments, strict=True)
    ]
    if systems:
        pairs = [replace(pair, measure=replace(pair.measure, graded_alike=graded_alike(pair, items))) for pair in pairs]
    # An arm has a value at a step where all its runs have one.
    steps = sorted({step for arm in arms for run in arm.runs for step in run.series})
    shares = is_share(chosen, [value for arm in arms for run in arm.runs for value in run.series.values()])
    return Comparison(
        metric=chosen,
        is_share=shares,
        control=arms[0],
        treatments=arms[1:],
        steps=tuple(StepRow(step, tuple(arm.series.get(step) for arm in arms)) for step in steps),
        contrasts=_with_words(pairs, [_contrast(pair, sources, items) for pair in pairs], shares),
        withheld=withheld,
        systems=systems,
    )


def _pair(
    control: ComparedArm,
    treatment: ComparedArm,
    left: Runs,
    right: Runs,
    metric: str,
    items: Mapping[int, Items],
    systems: bool,
) -> Pair:
    """Pair two arms; `left` and `right` are their judged runs."""
    runs, labels = (*left, *right), [run.label for run in (*control.runs, *treatment.runs)]
    is_result = metric in {run.core_metric for run in (*control.runs, *treatment.runs)}
    measure = Measure(metric, is_result, graded_apart(runs), systems)
    found, copied = arm_differences(left, right), copies(runs, labels)
    return Pair(
        control,
        treatment,
        metric,
        last_common_step(control.series, treatment.series),
        tuple(replace(item, declared=False) for item in found) if systems else found,
        copied,
        same_validation_items(*same_seed(left, right)),
        measure,
        unrecorded(runs, labels, measure),
        equal=tuple(each for each in equal_runs(runs, labels) if (each.one, each.two) not in copied),
        rules=min(run.verdict.rules for run in runs),
        copied_outputs=copied_outputs(runs, labels, items),
    )


def _contrast(pair: Pair, sources: int, items: Mapping[int, Items]) -> Contrast:
    matched, unmatched = _match(pair, sources, items)
    not_binary = why_not_binary(pair.metric, sources) or why_no_shares(pair, items)
    findings = (*pair_findings(pair), *seed_findings(pair), *disputed_value(pair), *unmatched)
    findings += (*copy_findings(pair), *repeat_findings(pair, items))
    findings += (*grading_mismatch(pair, items), *before_training(pair, items.get(BEFORE, NO_ITEMS), not_binary))
    if not (pair.has_seeds or matched or unmatched or why_no_test(pair, findings)):
        findings += tuple(not_by_item(pair, items.get(pair.step or 0, NO_ITEMS), sources))
    findings = tuple(finding for finding in findings if is_made(finding.id, pair.rules))
    comparable = not any(finding.severity is Severity.ERROR or finding.id == COLLAPSED for finding in findings)
    control, treatment = (arm.series.get(pair.step) if pair.step is not None else None for arm in pair.arms)
    test = choose_test(pair, findings, not_binary, matched)
    return Contrast(
        treatment=pair.treatment.label,
        step=pair.step,
        control_value=control,
        treatment_value=treatment,
        difference=treatment - control if control is not None and treatment is not None else None,
        test=None if isinstance(test, str) else test,
        no_test=test if isinstance(test, str) else "",
        p_value=None if isinstance(test, str) else test.p_value,
        checkpoints=() if pair.has_seeds else tuple(run.run_id for run in pair.checkpoints),
        differences=pair.differences,
        findings=findings,
        reportable=comparable and all(run.finished and not run.word for run in pair.runs),
        sentences=(),
        factors=pair.factors,
        shown=shown_factors(*pair.arms, pair.factors),
    )


def _match(pair: Pair, sources: int, items: Mapping[int, Items]) -> tuple[MatchedItems | None, tuple[Finding, ...]]:
    # Items are known by their whole prompts, which another model's template writes otherwise.
    if pair.step is None or (pair.of_other_models and any(item.key == CHAT_TEMPLATE for item in pair.differences)):
        return None, ()
    matched, findings = match_items(pair, items.get(pair.step, NO_ITEMS), sources)
    if not pair.has_seeds:
        return matched, findings
    return None, tuple(finding for finding in findings if finding.severity is Severity.ERROR)


def _with_words(pairs: Sequence[Pair], contrasts: Sequence[Contrast], is_share: bool) -> tuple[Contrast, ...]:
    """Correct the p-values over all treatments that have one, then write the sentences that follow from them."""
    raw = {index: contrast.p_value for index, contrast in enumerate(contrasts) if contrast.p_value is not None}
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    final = [replace(contrast, p_value=corrected.get(index)) for index, contrast in enumerate(contrasts)]
    return tuple(
        replace(contrast, sentences=sentences(pair, contrast, is_share, len(raw)))
        for pair, contrast in zip(pairs, final, strict=True)
    )


def outputs_to_read(
    control: Runs, treatments: Sequence[Runs], metric: str | None = None
) -> tuple[str, Mapping[int, frozenset[str]]]:
    """Return the metric, and by step the ids of the runs whose outputs the comparison checks.

    The steps are those at which they are compared, and that before the training, where the arms must agree.

    Runs that get no test are not among them. Raises what `compare` raises.
    """
    chosen = choose_metric([run for runs in (control, *treatments) for run in runs], metric)
    wanted: dict[int, frozenset[str]] = defaultdict(frozenset)
    for treatment in treatments:
        runs = (*control, *treatment)
        if all(run.state.is_terminal and run.verdict.is_result(ended=True) for run in runs):
            common = set.intersection(*(set(finite(series(run.evidence, chosen))) for run in runs))
            for step in {max(common)} | ({BEFORE} & common) if common else ():
                wanted[step] |= {run.run_id for run in runs}
    return chosen, wanted
