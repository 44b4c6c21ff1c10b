"""A comparison as terminal table, Markdown or CSV. What may not be reported is marked in each."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from rlx.cli.frame.output import console, print_text
from rlx.cli.text.table_text import fits, parts_within, table_lines
from rlx.compare.difference_areas import ConfigDifference
from rlx.compare.excluded_runs import excluded_groups, excluded_sentence, related_experiments_lines
from rlx.compare.findings import brief
from rlx.compare.run_differences import RECIPE
from rlx.compare.sentences import headline, registered_lines
from rlx.compare.speed import blocks, speed_change
from rlx.evidence.verdict import VerdictStatus, counted
from rlx.markdown import prose
from rlx.model import Finding, Severity, fix_line, message_text
from rlx.table import Cell, Table, marked, table_of_rows, to_csv, to_markdown
from rlx.terminal_text import printable

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, ComparedRun, Comparison, Contrast
    from rlx.evidence import Verdict

_MOST_ANSWERS = 3
"""With more treatments, differences are in their own sections only."""


def print_terminal(comparison: Comparison) -> None:
    """Print the answer, then the table, then what supports them.

    Excluded numbers are marked in words, and crossed out as well on a terminal with styles.
    """
    from rich.text import Text

    for line in answer_lines(comparison):
        print_text(line)
    print()
    out = console()
    out.print(Text(comparison.metric, "bold"), soft_wrap=True)
    for number, table in enumerate(_tables(comparison, out.width - 2)):
        for row in (*([Text()] if number else []), *table_lines(table, indent=2)):
            out.print(row, soft_wrap=True)
    for line in lines(comparison):
        print_text(line if line.startswith(" ") else f"\n{line}")


def _tables(comparison: Comparison, width: int) -> Iterator[Table]:
    """Yield the values by step as one table; on a terminal that is too narrow, arms and differences separately."""
    table = values_by_step(comparison)
    if not sys.stdout.isatty() or fits(table, width, below=False):
        yield table
        return
    steps, *columns = table.columns
    arms = len(comparison.arms)
    yield from parts_within(Table([steps, *columns[:arms]]), width)
    with_values = [number for number, row in enumerate(table.rows) if any(cell.text for cell in row[arms + 1 :])]
    differences = [
        replace(column, cells=[column.cells[number] for number in with_values]) for column in (steps, *columns[arms:])
    ]
    yield from parts_within(Table(differences), width)


def markdown_text(comparison: Comparison) -> str:
    """Return a table and a list, ready for a pull request."""
    answer, items = _items(answer_lines(comparison)), _items(lines(comparison))
    title = f"**{prose(' '.join(comparison.metric.split()))}**"
    return printable(f"{answer.lstrip()}\n{title}\n\n{to_markdown(values_by_step(comparison))}{items}\n")


def _items(lines: Iterable[str]) -> str:
    return "\n".join(f"{'' if line.startswith(' ') else chr(10)}{_bullet(prose(line))}" for line in lines if line)


def _bullet(line: str) -> str:
    return f"- {line.strip()}" if line.startswith(" ") else f"{line}\n"


def csv_text(comparison: Comparison) -> str:
    """Return one line per step: values as the log has them, and the verdicts in their own columns."""
    return to_csv(exact_values(comparison))


def answer_lines(comparison: Comparison) -> Iterator[str]:
    """Yield what may be quoted: the claim, if there is one, and the registered answer.

    Without a registered question, each treatment's difference, or why it has none.
    """
    if words := headline(comparison):
        yield words
    if comparison.registered:
        yield from ("", *registered_words(comparison))
    for contrast in comparison.contrasts if _answers_itself(comparison) else ():
        yield f"{contrast.treatment} against {comparison.control.label}: {contrast.sentences[0]}"


def _answers_itself(comparison: Comparison) -> bool:
    return not comparison.registered and len(comparison.contrasts) <= _MOST_ANSWERS


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield what supports the answer."""
    for arm in comparison.arms:
        if len(arm.runs) > 1:
            yield from _seed_lines(arm)
            continue
        (run,) = arm.runs
        yield f"{run.label}: {run.verdict.word} · {run.state.value} · seed {run.seed} · {run.run_id}"
        yield from _verdict_lines(run.verdict)
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
    """Yield the answer of the registered experiment of these runs, if they are of one."""
    if comparison.registered:
        yield from registered_lines(comparison.registered)


def left_out_lines(comparison: Comparison) -> Iterator[str]:
    """Yield which runs of the experiment are excluded, and related experiments, if there are any."""
    if comparison.left_out:
        yield excluded_sentence(comparison.left_out)
        yield from (f"  {line}" for line in excluded_groups(comparison.left_out))
    yield from related_experiments_lines(comparison.treatment_kind, comparison.others)


def _seed_lines(arm: ComparedArm) -> Iterator[str]:
    """Yield a line per run, then their verdicts; one that several runs share is printed once."""
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
    """Yield errors and warnings with their fixes, and what was waived; of those in `said` only the fix, once."""
    alone: set[str] = set()
    for finding in findings:
        if finding.severity is Severity.NOTE and not finding.waived:
            continue
        if finding.message not in said:
            yield f"  {finding.severity} {finding.id} {message_text(finding)}"
        elif finding.fix in alone:
            continue
        else:
            alone.add(finding.fix)
        if finding.fix:
            yield f"    {fix_line(finding)}"


def _difference(item: ConfigDifference) -> str:
    return f"{item.key}: {brief(item.control, 400)} → {brief(item.treatment, 400)}"


def _declared(contrast: Contrast) -> str:
    declared = [item for item in contrast.differences if item.declared]
    words = "; ".join(map(_difference, declared))
    if any(item.key == RECIPE for item in contrast.differences):
        return f"{words}; otherwise unknown (no recipe)" if words else "unknown (no recipe)"
    return words or "none"


def values_by_step(comparison: Comparison) -> Table:
    """Return what to read: the mean of each arm, and the difference of each treatment.

    An arm has its verdict in the heading, unless it is `valid`, so that it is read before the numbers.
    """
    headings = ["step", *(_title(arm, "mean ± sd") for arm in comparison.arms), *_difference_titles(comparison)]
    return table_of_rows(headings, list(_rows(comparison)), right=True)


def exact_values(comparison: Comparison) -> Table:
    """Return what to compute with: numbers as the log has them, and the verdicts in their own columns."""
    return table_of_rows(_exact_header(comparison), list(_exact_rows(comparison)), right=True)


def _exact_header(comparison: Comparison) -> list[str]:
    """Return the columns of numbers, then a verdict column for each arm, run and difference."""
    columns = []
    for arm in comparison.arms:
        columns.append(_title(arm, "mean"))
        # Beside the mean of several runs their standard deviation, and each run.
        columns += [f"{arm.label} sd", *(run.label for run in arm.runs)] if len(arm.runs) > 1 else []
    return ["step", *columns, *_difference_titles(comparison), *(f"{name} verdict" for name, _ in _words(comparison))]


def _difference_titles(comparison: Comparison) -> list[str]:
    """Return `aqn - baseline (points)`, with the verdict of a difference whose cells are not marked with it."""
    unit = "points" if comparison.is_share else ""
    words = zip(comparison.difference_qualifiers(), comparison.difference_exclusions(), strict=True)
    notes = [", ".join(filter(None, (unit, "" if exclusion else word))) for word, exclusion in words]
    return [marked(name, note) for name, note in zip(_difference_names(comparison), notes, strict=True)]


def _difference_names(comparison: Comparison) -> list[str]:
    return [f"{arm.label} - {comparison.control.label}" for arm in comparison.treatments]


def _words(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the verdict of each arm, of each run where an arm has several, and of each difference."""
    for arm in comparison.arms:
        yield arm.label, arm.word
        if len(arm.runs) > 1:
            yield from ((run.label, run.word) for run in arm.runs)
    yield from zip(_difference_names(comparison), comparison.difference_qualifiers(), strict=True)


def _title(arm: ComparedArm, value: str) -> str:
    """Return `aqn`, `aqn (invalid)`; for several runs `aqn (mean of 3)`, `aqn (mean of 3, 1 invalid)`."""
    words = Counter(run.word for run in arm.runs if run.word)
    if len(arm.runs) == 1:
        return " ".join([arm.label, *(f"({word})" for word in words)])
    notes = [f"{value} of {len(arm.runs)}", *(f"{count} {word}" for word, count in words.items())]
    return f"{arm.label} ({', '.join(notes)})"


def _rows(comparison: Comparison) -> Iterator[list[Cell]]:
    for row in comparison.steps:
        cells = [
            _cell(arm, _shown(comparison, arm, row.step, value))
            for arm, value in zip(comparison.arms, row.values, strict=True)
        ]
        yield [Cell(str(row.step)), *cells, *_differences(comparison, row.values, exact=False)]
    blanks = [Cell("") for _ in comparison.treatments]
    for name in ("peak", "final"):
        points = [(arm, getattr(arm, name)) for arm in comparison.arms]
        cells = [_cell(arm, f"{point.value:.4g} @ {point.step}" if point else "") for arm, point in points]
        yield [Cell(name), *cells, *blanks]
    for name, texts, changes in pace_rows(comparison.arms):
        cells = [_cell(arm, text) for arm, text in zip(comparison.arms, texts, strict=True)]
        yield [Cell(name), *cells, *_changes(comparison, changes)]


def _shown(comparison: Comparison, arm: ComparedArm, step: int, value: float | None) -> str:
    """Return `0.7058`, for several runs `0.7058 ± 0.0102`, or how many of them have a value."""
    number = ("{:.4f}" if comparison.is_share else "{:.6g}").format
    if value is None:
        have = sum(step in run.series for run in arm.runs)
        return f"{have} of {len(arm.runs)} runs" if have else ""
    spread = arm.spread.get(step)
    return number(value) if spread is None else f"{number(value)} ± {number(spread)}"


def _exact_rows(comparison: Comparison) -> Iterator[list[str]]:
    """Yield numbers as the log has them, then the verdicts, since a cell with both would be no number."""
    verdicts = [word or VerdictStatus.VALID.value for _, word in _words(comparison)]
    for row in comparison.steps:
        numbers = [
            number
            for arm, value in zip(comparison.arms, row.values, strict=True)
            for number in _exact_numbers(arm, row.step, value)
        ]
        differences = (cell.text for cell in _differences(comparison, row.values, exact=True))
        yield [str(row.step), *numbers, *differences, *verdicts]


def _exact_numbers(arm: ComparedArm, step: int, value: float | None) -> list[str]:
    """Return the mean of the arm; if it has several runs, also their standard deviation and each value."""
    together = [_exact(value), _exact(arm.spread.get(step))]
    return [*together, *(_exact(run.series.get(step)) for run in arm.runs)] if len(arm.runs) > 1 else together[:1]


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def _cell(arm: ComparedArm, text: str) -> Cell:
    return Cell(text, exclusion=arm.exclusion)


def _differences(comparison: Comparison, values: Sequence[float | None], exact: bool) -> Iterator[Cell]:
    """Yield treatment minus control, in points if the values are shares."""
    shown = "{:+.10g}" if exact else ("{:+.1f}" if comparison.is_share else "{:+.4g}")
    factor = 100 if comparison.is_share else 1
    control, *others = values
    texts = ["" if each is None or control is None else shown.format(factor * (each - control)) for each in others]
    exclusions = comparison.difference_exclusions()
    return (Cell(text, exclusion=exclusion) for text, exclusion in zip(texts, exclusions, strict=True))


def _changes(comparison: Comparison, texts: Sequence[str]) -> Iterator[Cell]:
    """Yield the change in speed of each treatment, excluded where either arm is; evaluation does not affect it."""
    for arm, text in zip(comparison.treatments, texts, strict=True):
        yield Cell(text, exclusion=arm.exclusion or comparison.control.exclusion)


def pace_rows(arms: Sequence[ComparedArm]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield a name, a text per arm, and the change of each treatment from the control, for each value in a log.

    An arm of several runs has their mean. A change needs at least three blocks. The load of the hosts is included,
    since it may explain different times where an arm has one run.
    """
    control, *treatments = arms
    in_blocks = [blocks(control, arm) for arm in treatments]
    for name, value_of, shown in _ROWS:
        means = [_mean(arm, value_of) for arm in arms]
        if any(mean is not None for mean in means):
            texts = ["" if mean is None else shown(mean) for mean in means]
            yield name, texts, [_change(pairs, value_of) for pairs in in_blocks]
    loads = [_load(arm) for arm in arms]
    if any(loads):
        yield "load before", loads, ["" for _ in arms[1:]]


def _load(arm: ComparedArm) -> str:
    """Return `0.4 to 2.1 of 16`: the load of the hosts before the runs, and their number of processors."""
    known = [run.load for run in arm.runs if run.load is not None]
    if not known:
        return ""
    low, high = (pick(each.minute for each in known) for pick in (min, max))
    of = " and ".join(map(str, sorted({each.processors for each in known})))
    return f"{low:.2g} of {of}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g} of {of}"


def _mean(arm: ComparedArm, value_of: _Value) -> float | None:
    known = [value for run in arm.runs if (value := value_of(run)) is not None]
    return fmean(known) if len(known) == len(arm.runs) else None


def _change(pairs: Sequence[tuple[ComparedRun, ComparedRun]], value_of: _Value) -> str:
    """Return `+57 % (-12 to +180)`, with the 95 % interval; "" if there are too few blocks."""
    found = speed_change([(value_of(control), value_of(treatment)) for control, treatment in pairs])
    if found is None:
        return ""
    return f"{100 * found.change:+.0f} % ({100 * found.low:+.0f} to {100 * found.high:+.0f})"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


_Value = Callable[["ComparedRun"], float | None]
_Row = tuple[str, _Value, Callable[[float], str]]
_ROWS: tuple[_Row, ...] = (
    ("s/step", lambda run: run.seconds_per_step, "{:.3g}".format),
    ("tokens/s", lambda run: run.tokens_per_second, lambda value: f"{value:.0f}" if value >= 100 else f"{value:.3g}"),
    ("all steps", lambda run: run.training_seconds, _duration),
)
