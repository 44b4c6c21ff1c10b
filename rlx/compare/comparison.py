"""Compare a control arm with treatment arms: align, diff, test, and say what follows. Pure; prints nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rlx.compare.align import StepRow, last_common_step
from rlx.compare.assemble import Runs, arm_differences, compared_arms
from rlx.compare.before_training import BEFORE, before_training
from rlx.compare.compared_arms import ComparedArm, same_seed
from rlx.compare.comparison_values import COLLAPSED, Comparison, Contrast, Pair
from rlx.compare.difference_areas import CHAT_TEMPLATE
from rlx.compare.duplicate_runs import copies
from rlx.compare.equal_runs import EqualRuns, equal_runs
from rlx.compare.error_rates import holm
from rlx.compare.evaluation_conditions import Measure
from rlx.compare.factors import shown_factors
from rlx.compare.findings import disputed_value, pair_findings
from rlx.compare.graded_otherwise import graded_alike, graded_otherwise
from rlx.compare.inference import choose_test, why_no_test
from rlx.compare.item_counts import is_share, why_not_binary
from rlx.compare.matching import NO_ITEMS, Items, MatchedItems, match_items, not_by_item
from rlx.compare.metric import choose_metric
from rlx.compare.output_contradictions import held_to_outputs
from rlx.compare.output_repeats import copied_outputs, copy_findings, repeat_findings, why_no_shares
from rlx.compare.run_differences import graded_apart, same_validation_items
from rlx.compare.seed_findings import seed_findings
from rlx.compare.sentences import sentences
from rlx.compare.unrecorded import unrecorded
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
    """Hold each treatment arm against the control arm at the last step that all their runs have validated.

    An arm is its runs, one a seed. `metric` is a full name or an unambiguous part of one; without it, the validation
    metric that the control's log shows. Raises UsageError for a metric that no log has or that fits several, RlxError
    while there is none at all. `items`: scores per item by step, for the runs that `outputs_to_read` names.
    `withheld`: why no p-value and no interval is shown yet, as of a registered experiment that is not complete.
    `systems`: compare whole systems, whose every difference is listed and none credited.
    """
    judged = (control, *treatments)
    chosen = choose_metric([run for runs in judged for run in runs], metric)
    sources = len(data_sources(control[0].evidence, chosen))
    arms = tuple(held_to_outputs(arm, items, sources) for arm in compared_arms(judged, chosen))
    pairs = [
        replace(_pair(arms[0], arm, control, runs, chosen, items, systems), withheld=withheld)
        for arm, runs in zip(arms[1:], treatments, strict=True)
    ]
    if systems:
        pairs = [replace(pair, measure=replace(pair.measure, graded_alike=graded_alike(pair, items))) for pair in pairs]
    shares = is_share(chosen, [value for arm in arms for run in arm.runs for value in run.series.values()])
    return Comparison(
        metric=chosen,
        is_share=shares,
        control=arms[0],
        treatments=arms[1:],
        steps=_steps(arms),
        contrasts=_with_words(pairs, [_contrast(pair, sources, items) for pair in pairs], shares),
        withheld=withheld,
        systems=systems,
    )


def _steps(arms: Sequence[ComparedArm]) -> tuple[StepRow, ...]:
    """One row for each step at which any run was validated; an arm has a value where all its runs have."""
    steps = sorted({step for arm in arms for run in arm.runs for step in run.series})
    return tuple(StepRow(step, tuple(arm.series.get(step) for arm in arms)) for step in steps)


def _pair(
    control: ComparedArm,
    treatment: ComparedArm,
    left: Runs,
    right: Runs,
    metric: str,
    items: Mapping[int, Items],
    systems: bool,
) -> Pair:
    """`left` and `right` are the judged runs of the two arms."""
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
        equal=_equal(runs, labels, copied),
        rules=min(run.verdict.rules for run in runs),
        copied_outputs=copied_outputs(runs, labels, items),
    )


def _equal(runs: Runs, labels: Sequence[str], found: Sequence[tuple[str, str]]) -> tuple[EqualRuns, ...]:
    """The runs that trained alike, without those that are known to be one."""
    known = set(found)
    return tuple(pair for pair in equal_runs(runs, labels) if (pair.one, pair.two) not in known)


def _contrast(pair: Pair, sources: int, items: Mapping[int, Items]) -> Contrast:
    matched, unmatched = _match(pair, sources, items)
    not_binary = why_not_binary(pair.metric, sources) or why_no_shares(pair, items)
    findings = (*pair_findings(pair), *seed_findings(pair), *disputed_value(pair), *unmatched)
    findings += (*copy_findings(pair), *repeat_findings(pair, items))
    findings += (*graded_otherwise(pair, items), *before_training(pair, items.get(BEFORE, NO_ITEMS), not_binary))
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
    """p-values corrected over all treatments that have one, then the sentences that follow from them."""
    raw = {index: contrast.p_value for index, contrast in enumerate(contrasts) if contrast.p_value is not None}
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    final = [replace(contrast, p_value=corrected.get(index)) for index, contrast in enumerate(contrasts)]
    return tuple(
        replace(contrast, sentences=sentences(pair, contrast, is_share, len(raw)))
        for pair, contrast in zip(pairs, final, strict=True)
    )
