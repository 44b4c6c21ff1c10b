"""Find outputs of validations that are copies of another run's, and items that a validation asks several times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rlx.compare.comparison_values import Copy, Pair
from rlx.compare.matching import NO_ITEMS, Items
from rlx.evidence import ItemScores, JudgedRun
from rlx.evidence.verdict import percent
from rlx.model import Finding, Severity

_MANY_REPEATS = 0.05


def copied_outputs(runs: Sequence[JudgedRun], labels: Sequence[str], items: Mapping[int, Items]) -> tuple[Copy, ...]:
    """Find the validations of different runs that have unique ids in common; the first run with an id has it.

    What the evidence of a run keeps is of all its validations, and `items` of those that were fetched.
    """
    first: dict[str, tuple[str, str, int]] = {}
    found: dict[Copy, None] = {}
    for run, label in zip(runs, labels, strict=True):
        for step, ids in _ids(run, items):
            for each in ids:
                run_id, other, at = first.setdefault(each, (run.run_id, label, step))
                if run_id != run.run_id:
                    found[Copy(label, step, other, at)] = None
    return tuple(found)


def _ids(run: JudgedRun, items: Mapping[int, Items]) -> Iterator[tuple[int, tuple[str, ...]]]:
    for step, kept in sorted(run.evidence.outputs.items()):
        yield step, kept.ids
    for step, fetched in sorted(items.items()):
        if run.run_id in fetched:
            yield step, fetched[run.run_id].ids


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
