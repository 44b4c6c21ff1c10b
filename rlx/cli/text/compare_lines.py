"""Say a comparison in words: the verdicts of the runs, then what follows for each treatment.

Headings start at the margin, what belongs to them is indented by two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rlx.compare.claim import claim
from rlx.compare.config_diff import RECIPE, ConfigDifference
from rlx.compare.findings import brief
from rlx.compare.left_out import left_out_groups, left_out_sentence
from rlx.compare.other_experiments import other_experiments_lines
from rlx.compare.registered_words import registered_lines
from rlx.evidence.verdict import counted
from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, ComparedRun, Comparison, Contrast
    from rlx.evidence import Verdict

_MOST_ANSWERS = 3
"""More treatments have their differences in their own sections only."""


def answer_lines(comparison: Comparison) -> Iterator[str]:
    """What may be quoted: the claim, as far as there is one, and then the registered answer.

    Without a registered question, each treatment's difference, or why it has none.
    """
    if words := claim(comparison):
        yield words
    if comparison.registered:
        yield from ("", *registered_words(comparison))
    for contrast in comparison.contrasts if _answers_itself(comparison) else ():
        yield f"{contrast.treatment} against {comparison.control.label}: {contrast.sentences[0]}"


def _answers_itself(comparison: Comparison) -> bool:
    return not comparison.registered and len(comparison.contrasts) <= _MOST_ANSWERS


def lines(comparison: Comparison) -> Iterator[str]:
    """All that stands behind the answer."""
    for arm in comparison.arms:
        yield from _seed_lines(arm) if len(arm.runs) > 1 else _run_lines(arm.runs[0])
    for contrast in comparison.contrasts:
        apart = "exploratory: " if comparison.registered else ""
        yield f"{apart}{contrast.treatment} against {comparison.control.label}"
        first, *others = contrast.sentences
        said = [finding for finding in contrast.findings if finding.message in first]
        if said or not _answers_itself(comparison):
            yield f"  {first}"
        yield from _finding_lines(said, said=first)
        yield from (f"  {sentence}" for sentence in others)
        if comparison.systems:
            yield f"  whole systems, {counted(len(contrast.differences), 'difference')}:"
            yield from (f"    {item.area}: {_difference(item)}" for item in contrast.differences)
        else:
            yield f"  declared treatment: {_declared(contrast)}"
        yield from (f"    {words}" for words in contrast.shown)
        yield from _finding_lines([finding for finding in contrast.findings if finding not in said])
    yield from left_out_lines(comparison)


def registered_words(comparison: Comparison) -> Iterator[str]:
    """What the registered experiment of these runs answers; nothing where they are of none."""
    if comparison.registered:
        yield from registered_lines(comparison.registered)


def left_out_lines(comparison: Comparison) -> Iterator[str]:
    """Name the runs of the experiment that are not in here, and experiments of the like; nothing without any."""
    if comparison.left_out:
        yield left_out_sentence(comparison.left_out)
        yield from (f"  {line}" for line in left_out_groups(comparison.left_out))
    yield from other_experiments_lines(comparison.treatment_kind, comparison.others)


def _run_lines(run: ComparedRun) -> Iterator[str]:
    yield f"{run.label}: {run.verdict.word} · {run.state.value} · seed {run.seed} · {run.run_id}"
    yield from _verdict_lines(run.verdict)


def _seed_lines(arm: ComparedArm) -> Iterator[str]:
    """A line a run, then their verdicts; one that several runs share is said once."""
    yield f"{arm.label}: {len(arm.runs)} runs"
    shared: dict[Verdict, list[int]] = defaultdict(list)
    for run in arm.runs:
        yield f"  seed {run.seed}: {run.verdict.word} · {run.state.value} · {run.run_id}"
        shared[run.verdict].append(run.seed)
    for verdict, seeds in shared.items():
        yield from _verdict_lines(verdict, f"seed {', '.join(map(str, seeds))}: " if len(shared) > 1 else "")


def _verdict_lines(verdict: Verdict, whose: str = "") -> Iterator[str]:
    yield f"  {whose}{verdict.sentence}"
    yield from _finding_lines(verdict.findings, said=verdict.sentence)


def _finding_lines(findings: Sequence[Finding], said: str = "") -> Iterator[str]:
    """Errors and warnings with their fixes, and what was waived; of what was said already, the fix alone, and once."""
    alone: set[str] = set()
    for finding in findings:
        if finding.severity is Severity.NOTE and not finding.waived:
            continue
        if finding.message not in said:
            yield f"  {finding.severity} {finding.id} {finding.message}"
        elif finding.fix in alone:
            continue
        else:
            alone.add(finding.fix)
        if finding.fix:
            yield f"    fix: {finding.fix}"


def _difference(item: ConfigDifference) -> str:
    return f"{item.key}: {brief(item.control, 400)} → {brief(item.treatment, 400)}"


def _declared(contrast: Contrast) -> str:
    declared = [item for item in contrast.differences if item.declared]
    words = "; ".join(map(_difference, declared))
    if any(item.key == RECIPE for item in contrast.differences):
        return f"{words}; otherwise unknown (no recipe)" if words else "unknown (no recipe)"
    return words or "none"
