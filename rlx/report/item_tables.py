"""Tables of items over the seeds of two arms: which change most often, the answers, their difficulty, pass@k."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rlx.compare import Comparison, Contrast
from rlx.compare.item_effects import ArmItems, Flip, SeedItems, arm_items, by_difficulty, flips, pass_curves
from rlx.compare.metric import Unit
from rlx.evidence import ItemScores, ItemTexts, JudgedRun
from rlx.evidence.metrics import data_sources
from rlx.table import Cell, Cells, Table, table_of_rows

Items = Mapping[int, Mapping[str, ItemScores]]
Texts = Mapping[str, Mapping[str, ItemTexts]]
_MOST_FLIPS, _MOST_READ = 20, 8


@dataclass(frozen=True, slots=True)
class FoundItems:
    """The tables of one contrast; `answers` has one for each item that changed most often."""

    treatment: str
    tables: tuple[Table, ...]
    answers: tuple[Table, ...]


def found_items(
    comparison: Comparison | None, judged: Sequence[JudgedRun], items: Items, texts: Texts
) -> list[FoundItems]:
    """Make the tables of each contrast whose runs kept their outputs, without empty ones."""
    if comparison is None:
        return []
    parts = ((contrast, _of(comparison, contrast, judged, items)) for contrast in comparison.contrasts)
    found = [_tables(comparison, contrast, own, texts) for contrast, own in parts if own is not None]
    return [each for each in found if each.tables or each.answers]


def items_to_read(
    comparison: Comparison, judged: Sequence[JudgedRun], items: Items
) -> Iterator[tuple[int, tuple[str, ...], frozenset[str]]]:
    """Yield (step, run ids, items) of the answers that the page shows side by side."""
    for contrast in comparison.contrasts:
        found = _of(comparison, contrast, judged, items)
        if found is not None and (turned := flips(found)[:_MOST_READ]):
            runs = (*found.control, *found.treatment)
            yield found.step, tuple(run.run_id for run in runs), frozenset(each.item for each in turned)


def _of(comparison: Comparison, contrast: Contrast, judged: Sequence[JudgedRun], items: Items) -> ArmItems | None:
    sources = len(data_sources(judged[0].evidence, comparison.metric))
    return arm_items(comparison, contrast, items, sources)


def _tables(comparison: Comparison, contrast: Contrast, found: ArmItems, texts: Texts) -> FoundItems:
    labels, turned = (comparison.control.label, contrast.treatment), flips(found)
    tables = (
        _flips_table(found, turned, labels) if len(found.pairs) > 1 else None,
        _difficulty_table(found, labels, Unit(comparison.is_share)),
        _pass_table(found, labels),
    )
    answers = [_answers_table(found, flip, labels, texts) for flip in turned[:_MOST_READ]]
    return FoundItems(
        contrast.treatment,
        tuple(table for table in tables if table is not None),
        tuple(table for table in answers if table is not None),
    )


def _flips_table(found: ArmItems, turned: Sequence[Flip], labels: tuple[str, str]) -> Table | None:
    pairs = len(found.pairs)
    caption = (
        f"Step {found.step}: of {len(found.items)} items that every run answered, {len(turned)} changed in at "
        "least one "
        f"of {pairs} pairs of runs; sorted by how often they changed in one direction. Some change by chance"
    )
    shown = turned[:_MOST_FLIPS]
    headings = ("item", *labels, f"better, worse of {pairs}")
    rows = [*map(_flip_row, shown)]
    return table_of_rows(headings, rows, caption, len(turned) - len(shown), right=True) if turned else None


def _flip_row(flip: Flip) -> tuple[str, ...]:
    name = flip.prompt or flip.item
    return name, f"{flip.control:.3g}", f"{flip.treatment:.3g}", f"{flip.better}, {flip.worse}"


def _answers_table(found: ArmItems, flip: Flip, labels: tuple[str, str], texts: Texts) -> Table | None:
    """Show what the runs of each pair answered; None where no text was kept."""
    pairs = [pair for pair in found.pairs if all(flip.item in texts.get(run.run_id, {}) for run in pair)]
    rows: list[Cells] = [(_seeds(*pair), *(_answer_cell(run, flip.item, texts) for run in pair)) for pair in pairs]
    if not rows:
        return None
    expected = texts[pairs[0][0].run_id][flip.item].expected
    right = f"; right answer: {expected}" if expected else ""
    return table_of_rows(("seed", *labels), rows, f"{flip.prompt or flip.item}{right}")


def _seeds(control: SeedItems, treatment: SeedItems) -> str:
    return str(control.seed) if control.seed == treatment.seed else f"{control.seed} and {treatment.seed}"


def _answer_cell(run: SeedItems, item: str, texts: Texts) -> Cell:
    """Show the first answer; of several, with the mean score of all."""
    answers = texts[run.run_id][item].answers
    of_several = f", mean of {len(answers)} answers, the first is shown" if len(answers) > 1 else ""
    return Cell(answers[0] or "(empty)", f"score {run.means[item]:.3g}{of_several}")


def _difficulty_table(found: ArmItems, labels: tuple[str, str], unit: Unit) -> Table | None:
    groups = by_difficulty(found)
    if not groups:
        return None
    runs = len(found.control)
    caption = (
        f"Effect by difficulty. {runs - 1} of the {runs} control runs measure how hard an item is, and the "
        "remaining one "
        "is the control of the difference, each of them once: otherwise bad luck would look like a gain on hard items"
    )
    rows = [
        (
            group.name,
            f"{group.items:.0f}",
            f"{group.control:.3g}",
            f"{group.treatment:.3g}",
            Cell(
                unit.change(group.difference),
                f"{unit.signed(min(group.differences))} to {unit.signed(max(group.differences))} by control run",
            ),
        )
        for group in groups
    ]
    return table_of_rows(("items", "how many", *labels, "difference"), rows, caption, right=True)


def _pass_table(found: ArmItems, labels: tuple[str, str]) -> Table | None:
    curves = pass_curves(found)
    if not curves:
        return None
    rows: list[Cells] = [(f"pass@{k}", *map(_pass_cell, values)) for k, values in curves.items()]
    caption = "pass@k: items of which one of k answers is right; estimated from all answers (Chen et al. 2021)"
    return table_of_rows(("", *labels), rows, caption, right=True)


def _pass_cell(values: Sequence[float]) -> Cell:
    span = f"{100 * min(values):.1f} to {100 * max(values):.1f} by run" if len(values) > 1 else ""
    return Cell(f"{100 * fmean(values):.1f} %", span)
