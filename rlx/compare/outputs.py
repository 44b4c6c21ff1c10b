"""Check the outputs that runs kept of their validations, and match their scores by item.

Match items of two checkpoints, find values that the outputs contradict, copied outputs and repeated items, answers that
were graded differently, and arms that differ before their training.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from rlx.compare.arms import ComparedArm, ComparedRun, same_seed
from rlx.compare.comparison_values import CopiedOutput, Pair
from rlx.compare.metric import are_counts, printed_decimals
from rlx.compare.proportions import two_proportions
from rlx.compare.sentences import p_text
from rlx.evidence import ItemScores, JudgedRun, Verdict, VerdictStatus
from rlx.evidence.grammars import grammars
from rlx.evidence.reading.validation_outputs import wanted_scores
from rlx.evidence.verdict import percent
from rlx.model import Finding, Severity

Items = Mapping[str, ItemScores]
"""The scores of one validation by run id; a run that kept none is not there."""
NO_ITEMS: Items = MappingProxyType({})
# verl 0.4 and older print three decimals, later ones all.
_FEWEST_DECIMALS = 3
_SLACK = 1e-6
_MANY_REPEATS = 0.05
# A reward model that runs in bfloat16 repeats itself to two or three digits.
_ALIKE = 0.02
_FEW, _FEW_SHARE = 2, 0.01
_ENOUGH = 30
"""Answers in common that show that two rewards grade alike."""
BEFORE = 0
ALPHA = 0.001
_FIX = "check that both arms have the same model, data, template and reward: rlx report shows what each run found"


@dataclass(frozen=True, slots=True)
class MatchedItems:
    """`control` and `treatment` have the mean score of each of `items`, in their order."""

    items: tuple[str, ...]
    control: tuple[float, ...]
    treatment: tuple[float, ...]


def match_items(pair: Pair, items: Items, data_sources: int) -> tuple[MatchedItems | None, tuple[Finding, ...]]:
    """Return the items of the pair's two checkpoints at its step, and the finding if they differ: RLX714.

    None with no finding where a run kept no outputs of this step, or they do not say which of several data sources
    they belong to.
    """
    control, treatment = (items.get(run.run_id) for run in pair.checkpoints)
    if control is None or treatment is None or not all(belongs(each, data_sources) for each in (control, treatment)):
        return None, ()
    if {control.step, treatment.step} != {pair.step}:
        return None, ()
    if problems := tuple(_other_items(pair, control, treatment)):
        return None, problems
    left, right, names = control.means, treatment.means, tuple(sorted(control.scores))
    return MatchedItems(names, tuple(map(left.__getitem__, names)), tuple(map(right.__getitem__, names))), ()


def not_by_item(pair: Pair, items: Items, data_sources: int) -> Iterator[Finding]:
    """Warn of checkpoints that could have been compared by item. `items`: the ids of runs whose scores are here."""
    if wanted_scores(pair.metric) is None:
        return
    without = [run.label for run in pair.checkpoints if run.run_id not in items]
    why = f"there are no scores per item of {' and '.join(without)} at step {pair.step}"
    if not without:
        why = f"the scores per item do not say which of {data_sources} data sources they are of"
    setting = next((f": {each.outputs_setting}" for each in grammars() if each.outputs_setting), "")
    yield Finding(
        "RLX912",
        Severity.WARNING,
        f"{why}, so the checkpoints are not compared item by item, which shows smaller differences",
        f"keep the outputs of each validation{setting}, as runs of rlx do; a log alone has none",
        step=pair.step,
    )


def belongs(scores: ItemScores, data_sources: int) -> bool:
    """Tell whether the scores are those of the one data source that the metric is of."""
    return data_sources <= 1 or scores.source is not None


def _answers(scores: ItemScores) -> int:
    return sum(map(len, scores.scores.values()))


def _other_items(pair: Pair, control: ItemScores, treatment: ItemScores) -> Iterator[Finding]:
    """Object to other rows, or another prompt around them; where one run lost some answers, that is a warning.

    Fewer items in as many answers means that rows were replaced, not lost.
    """
    left, right = control.scores.keys(), treatment.scores.keys()
    if left == right:
        return
    names = [run.label for run in pair.checkpoints]
    counts = f"{len(left - right)} of {len(left)} and {len(right - left)} of {len(right)} are only with one of them"
    fewer, more = sorted((control, treatment), key=lambda scores: len(scores.scores))
    lost = (left < right or right < left) and _answers(fewer) < _answers(more)
    yield Finding(
        "RLX714",
        Severity.WARNING if lost else Severity.ERROR,
        f"{names[0]} and {names[1]} did not answer the same items: {counts}"
        + (", so they are not compared item by item" if lost else ""),
        "validate both arms on the same file with the same template; one with a date in it differs every day",
        step=pair.step,
    )


def checked_against_outputs(arm: ComparedArm, items: Mapping[int, Items], data_sources: int) -> ComparedArm:
    """Return the arm with RLX713 in the verdict of each run whose kept outputs contradict a value of its log."""
    runs = list(arm.runs)
    for place, run in enumerate(runs):
        kept = (at_step[run.run_id] for at_step in items.values() if run.run_id in at_step)
        odd = [scores for scores in kept if belongs(scores, data_sources) and not _fits(scores, run)]
        if odd:
            runs[place] = replace(run, verdict=_contradicted(run.verdict, _finding(odd[0], run)))
    return replace(arm, runs=tuple(runs))


def _fits(scores: ItemScores, run: ComparedRun) -> bool:
    """Tell whether the scores are of that step, and the logged value is their mean, up to how it was printed.

    Without a value they fit anything.
    """
    if scores.told_step is not None:
        return False
    logged = run.series.get(scores.step)
    if logged is None:
        return True
    decimals = max(_FEWEST_DECIMALS, printed_decimals(run.series.values()))
    return math.isclose(scores.mean, logged, rel_tol=_SLACK, abs_tol=max(_SLACK, 0.501 * 10.0**-decimals))


def _finding(scores: ItemScores, run: ComparedRun) -> Finding:
    if scores.told_step is not None:
        words = f"are not of this step: their lines name step {scores.told_step}"
    else:
        words = (
            f"contradict the log: their {scores.rows} items have the mean {scores.mean:.6g}, the log says "
            f"{run.series[scores.step]:.6g}"
        )
    return Finding(
        "RLX713",
        Severity.ERROR,
        f"the outputs kept of step {scores.step} {words}",
        "check whether answers were lost, and whether another run wrote the outputs or the log",
        step=scores.step,
    )


def _contradicted(verdict: Verdict, finding: Finding) -> Verdict:
    findings = (finding, *verdict.findings)
    if verdict.status not in (VerdictStatus.VALID, VerdictStatus.UNVERIFIED):
        return replace(verdict, findings=findings, dissent=True)
    sentence = f"{VerdictStatus.UNVERIFIED}: {finding.message} ({finding.id})"
    return replace(verdict, status=VerdictStatus.UNVERIFIED, findings=findings, sentence=sentence, dissent=True)


def copied_outputs(
    runs: Sequence[JudgedRun], labels: Sequence[str], items: Mapping[int, Items]
) -> tuple[CopiedOutput, ...]:
    """Find the validations of different runs that have unique ids in common; the first run with an id has it.

    What the evidence of a run keeps is of all its validations, and `items` of those that were fetched.
    """
    first: dict[str, tuple[str, str, int]] = {}
    found: dict[CopiedOutput, None] = {}
    for run, label in zip(runs, labels, strict=True):
        kept = [(step, outputs.ids) for step, outputs in sorted(run.evidence.outputs.items())]
        fetched = [(step, at_step[run.run_id].ids) for step, at_step in sorted(items.items()) if run.run_id in at_step]
        for step, ids in (*kept, *fetched):
            for each in ids:
                run_id, other, at = first.setdefault(each, (run.run_id, label, step))
                if run_id != run.run_id:
                    found[CopiedOutput(label, step, other, at)] = None
    return tuple(found)


def copy_findings(pair: Pair) -> Iterator[Finding]:
    """Object to outputs that are those of another run; whole runs that are copies are named as such."""
    whole = {frozenset(labels) for labels in pair.copies}
    found = [copy for copy in pair.copied_outputs if frozenset((copy.label, copy.other_label)) not in whole]
    if found:
        more = f", and {len(found) - 1} more such pairs" if len(found) > 1 else ""
        yield Finding(
            "RLX924",
            Severity.ERROR,
            f"the outputs kept of {found[0]} are one file: their unique ids are the same, and each validation draws "
            f"new ones{more}",
            "find out which run they are of, and validate the checkpoint of the other again",
            step=found[0].step,
        )


def repeat_findings(pair: Pair, items: Mapping[int, Items]) -> Iterator[Finding]:
    """Name the rows that ask an item again: their answers are no further sample."""
    kept = items.get(pair.step, NO_ITEMS) if pair.step is not None else NO_ITEMS
    most = max((kept[run.run_id] for run in pair.runs if run.run_id in kept), key=_repeats, default=None)
    if most is None or not (repeats := _repeats(most)):
        return
    share = repeats / most.rows
    yield Finding(
        "RLX925",
        Severity.WARNING if share >= _MANY_REPEATS else Severity.NOTE,
        f"{repeats} of {most.rows} validation rows ({percent(share)}) repeat an item, prompt and right answer alike: "
        f"the items are {len(most.scores)}, and an item counts by the mean over its rows",
        "remove the repeats from the validation file: rlx data check names them",
        step=pair.step,
    )


def why_no_shares(pair: Pair, items: Mapping[int, Items]) -> str:
    """Say why a test of shares would count items several times; "" where it would not."""
    found = next((each for each in repeat_findings(pair, items) if each.severity is Severity.WARNING), None)
    return f"the validation rows are not as many items: {found.message}" if found else ""


def _repeats(scores: ItemScores) -> int:
    return scores.rows - len(scores.scores)


@dataclass(frozen=True, slots=True)
class _GradedAnswer:
    """One answer as an arm graded it: the scores it got, in which run and at which step first, and its prompt."""

    scores: frozenset[float]
    label: str
    step: int
    prompt: str


def grading_mismatch(pair: Pair, items: Mapping[int, Items]) -> Iterator[Finding]:
    """Object to equal answers with unequal scores. One or two in hundreds, as of a judge model, are a warning.

    An answer that one arm itself graded in both ways is not reported.
    """
    control, treatment = (_graded(arm.runs, items) for arm in pair.arms)
    shared = control.keys() & treatment.keys()
    unlike = [key for key in sorted(shared) if not _agree(control[key].scores, treatment[key].scores)]
    if not unlike:
        return
    few = len(unlike) <= _FEW or len(unlike) < _FEW_SHARE * len(shared)
    yield Finding(
        "RLX921",
        Severity.WARNING if few else Severity.ERROR,
        f"{len(unlike)} of {len(shared)} answers that {pair.control.label} and {pair.treatment.label} have in common "
        f"were graded differently: {_example(control[unlike[0]], treatment[unlike[0]])}",
        "use one reward for both arms: find out whether its file, its packages or its judge changed between the runs",
    )


def graded_alike(pair: Pair, items: Mapping[int, Items]) -> bool:
    """Tell whether right and wrong answers that both arms gave show that they are graded by one rule, however named."""
    control, treatment = (_graded(arm.runs, items) for arm in pair.arms)
    shared = control.keys() & treatment.keys()
    scores = {score for key in shared for score in control[key].scores}
    alike = all(_agree(control[key].scores, treatment[key].scores) for key in shared)
    return len(shared) >= _ENOUGH and len(scores) > 1 and alike


def _graded(runs: Sequence[ComparedRun], items: Mapping[int, Items]) -> dict[tuple[str, str], _GradedAnswer]:
    """(item, digest of the answer) -> how this arm graded it, over all validations whose outputs are here."""
    found: dict[tuple[str, str], _GradedAnswer] = {}
    for step, kept in sorted(items.items()):
        for run in runs:
            for key, scores in _scores(kept[run.run_id]).items() if run.run_id in kept else ():
                before = found.get(key)
                if before is None:
                    found[key] = _GradedAnswer(frozenset(scores), run.label, step, kept[run.run_id].prompt(key[0]))
                else:
                    found[key] = _GradedAnswer(before.scores | scores, before.label, before.step, before.prompt)
    return found


def _scores(kept: ItemScores) -> Mapping[tuple[str, str], set[float]]:
    found: dict[tuple[str, str], set[float]] = defaultdict(set)
    for item, answers in kept.answers.items():
        for answer, score in zip(answers, kept.scores[item], strict=True):
            found[item, answer].add(score)
    return found


def _agree(control: frozenset[float], treatment: frozenset[float]) -> bool:
    return any(math.isclose(a, b, rel_tol=_ALIKE, abs_tol=_ALIKE) for a in control for b in treatment)


def _example(control: _GradedAnswer, treatment: _GradedAnswer) -> str:
    """`to "3+4=?" one answer got 1 in baseline (step 20) and 0 in aqn (step 20)`."""
    told = [f"{min(each.scores):g} in {each.label} (step {each.step})" for each in (control, treatment)]
    prompt = f'to "{control.prompt}" ' if control.prompt else ""
    return f"{prompt}the same answer got {' and '.join(told)}"


def before_training(pair: Pair, items: Items, not_binary: str) -> Iterator[Finding]:
    """Object to arms that differ before their training; note which share of the answers changed.

    Answers need not agree bit by bit: another batch or device changes some where two tokens are nearly equally likely.
    Such changes go both ways. A change in one direction at 0.1 % is another evaluation, or another model.

    Each treatment run is compared with the control run with its seed, at 0.1 % for all of them together. `items`:
    scores per item of step 0; without them the shares of right answers are tested as if they were of other items, which
    errs on the cautious side. `not_binary`: why the values are no such shares, "" where they are. Other models are
    apart from the beginning.
    """
    if pair.of_other_models:
        return
    level = ALPHA / len(pair.treatment.runs)
    for run in pair.treatment.runs:
        control, _ = same_seed(pair.control.runs, [run])
        ours, theirs = items.get(control.run_id), items.get(run.run_id)
        if ours is not None and theirs is not None:
            yield from _by_item((control, run), ours, theirs, level)
        elif not not_binary:
            yield from _by_share((control, run), pair.items.n, level)


def exact_mcnemar_p(better: int, worse: int) -> float:
    """Return the two-sided p-value of the exact test of McNemar: each item that differs goes either way by a coin.

    Source: McNemar (1947), Note on the sampling error of the difference between correlated proportions, Psychometrika
    12:153-157, in its binomial form.
    """
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(better, worse), better + worse, 0.5)))


def _by_item(
    runs: tuple[ComparedRun, ComparedRun], ours: ItemScores, theirs: ItemScores, level: float
) -> Iterator[Finding]:
    left, right = ours.means, theirs.means
    shared = left.keys() & right.keys()
    better, worse = (sum(sign * (right[item] - left[item]) > 0 for item in shared) for sign in (1, -1))
    p_value, changed = exact_mcnemar_p(better, worse), _changed(ours, theirs)
    names = " and ".join(run.label for run in runs)
    if p_value < level:
        yield _refused(
            f"{names} differ before any training: of {len(shared)} items {better} are better and {worse} worse with "
            f"{runs[1].label} at step {BEFORE} (McNemar's exact test, p {p_text(p_value)}){changed and '; ' + changed}"
        )
    elif changed:
        yield Finding("RLX923", Severity.NOTE, f"{names} before any training: {changed}", "", step=BEFORE)


def _by_share(runs: tuple[ComparedRun, ComparedRun], n: int | None, level: float) -> Iterator[Finding]:
    values = [run.series.get(BEFORE) for run in runs]
    control, treatment = values
    if n is None or control is None or treatment is None:
        return
    if not all(are_counts(run.series.values(), n) for run in runs):
        return
    test = two_proportions(round(control * n), round(treatment * n), n)
    if test.p_value < level:
        names = " and ".join(run.label for run in runs)
        yield _refused(
            f"{names} differ before any training: {control:.4g} and {treatment:.4g} of {n} items at step {BEFORE}, "
            f"more than chance explains (p {p_text(test.p_value)})"
        )


def _changed(ours: ItemScores, theirs: ItemScores) -> str:
    """Say how many of the items that both answered have other answers; "" where none has, or no text was kept."""
    shared = [item for item in ours.answers.keys() & theirs.answers.keys()]
    # Rows of one item may come in any order.
    changed = sum(sorted(ours.answers[item]) != sorted(theirs.answers[item]) for item in shared)
    return f"{changed} of {len(shared)} answers changed ({100 * changed / len(shared):.2g} %)" if changed else ""


def _refused(message: str) -> Finding:
    return Finding("RLX923", Severity.ERROR, message, _FIX, step=BEFORE)
