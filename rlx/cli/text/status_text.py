"""The runs of `rlx status` as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlx.cli.text.diagnose_text import UNSURE
from rlx.cli.text.state_styles import STATE_STYLE, VERDICT_STYLE
from rlx.runs.duration import age, duration
from rlx.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from rlx.evidence.diagnosis import Hit
    from rlx.runs.looking.overview import Overview
    from rlx.runs.looking.sweep import Sweep

_CAUSE_CHARACTERS = 160
_NO_NOISE = ("", "–", "none", "never")


def tables(
    rows: Sequence[Overview], verbose: bool, causes: Mapping[str, Hit | None], width: int, as_grid: bool = True
) -> Group:
    """A table for each launch, at most `width` cells wide: its runs are the ones that belong side by side.

    Several arms with several seeds are a grid where there is room for one, unless not `as_grid`. `causes`: why runs
    failed, by id; shown if `verbose`.
    """
    from rich.console import Group

    from rlx.cli.text.grid_text import is_grid
    from rlx.runs.looking.sweep import sweeps

    parts: list[Any] = []
    groups = (list(group) for _, group in groupby(rows, key=lambda row: row.ref.launch_id))
    for launched, sweep in zip(groups, sweeps(rows), strict=True):
        parts += _sweep(launched, sweep, width, as_grid) if is_grid(launched) else [_list(launched, sweep, width)]
        parts.extend(_details(launched, causes) if verbose else [*_nodes(launched), *_decided(launched)])
        parts.extend(_removed(launched))
    return Group(*parts)


def _sweep(rows: Sequence[Overview], sweep: Sweep, width: int, as_grid: bool) -> list[Any]:
    from rich.text import Text

    from rlx.cli.text.grid_text import grid, sweep_lines
    from rlx.cli.text.table_text import fits, fitted

    shown = [_list(rows, sweep, width)]
    if as_grid and fits(drawn := grid(rows), width):
        # The caption of a table is no wider than that.
        shown = [Text(_title(rows, sweep), "bold"), fitted(drawn, width)]
    return [*shown, *map(Text, sweep_lines(rows, sweep))]


def _list(rows: Sequence[Overview], sweep: Sweep, width: int) -> RenderableType:
    from rlx.cli.text.table_text import fitted

    return fitted(Table(_columns(rows), _title(rows, sweep)), width)


def _title(rows: Sequence[Overview], sweep: Sweep) -> str:
    container = f":{rows[0].container}" if rows[0].container else ""
    return f"{sweep.name} · launch {sweep.launch_id} · {', '.join(sweep.hosts)}{container}"


def _columns(rows: Sequence[Overview]) -> list[Column]:
    """Rank what can be done without: tags, the age, the pace, the time left, the value, the progress and the noise."""
    from rlx.evidence.grammars import core_prefixes
    from rlx.evidence.outlook import outlook

    several_seeds = len({row.ref.seed for row in rows}) > 1
    words = [outlook(row.verdict, row.state).word for row in rows]
    tags = [" ".join(row.label.tags) for row in rows]
    hosts = [row.ref.host for row in rows]
    left = [duration(row.seconds_left) if row.seconds_left is not None else "–" for row in rows]
    ages = [_age(row) for row in rows]
    columns = [
        Column("ARM", [row.ref.short_name if several_seeds else row.ref.arm for row in rows]),
        Column("STATE", [_state_cell(row) for row in rows]),
        Column("PROGRESS", [progress_cell(row) for row in rows], rank=2),
        Column("S/STEP", [f"{row.step_seconds:.1f}" if row.step_seconds is not None else "–" for row in rows], rank=5),
        *([Column("LEFT", left, rank=4)] if any(each != "–" for each in left) else []),
        Column(core_prefixes()[0].rstrip("/").upper(), [_value_cell(row) for row in rows], rank=3),
        *([Column("NOISE", [row.verdict.noise for row in rows], rank=1, flows=True)] if has_noise(rows) else []),
        Column("VERDICT", [Cell(word, style=VERDICT_STYLE.get(word, "yellow")) for word in words], flows=True),
    ]
    columns += [Column("AGE", ages, rank=6)] if any(each != "–" for each in ages) else []
    columns[1:1] = [Column("HOST", hosts)] if len({*hosts}) > 1 else []
    return [*columns, Column("TAGS", tags, rank=7, flows=True)] if any(tags) else columns


def has_noise(rows: Sequence[Overview]) -> bool:
    """Tell whether noise is planned for one of these runs, or was found in one."""
    planned = any(row.expectations is not None and row.expectations.noise is not None for row in rows)
    return planned or any(row.verdict.noise.split(" ")[0] not in _NO_NOISE for row in rows)


def _age(row: Overview) -> str:
    """Since the run began, by the clock of its host."""
    seconds = row.observation.seconds_since_start
    # Each as wide: a table that is drawn again stays as it is.
    return f"{age(seconds):<6}" if seconds is not None else "–"


def _state_cell(row: Overview) -> Cell:
    word = "removed" if row.removed else row.state.value
    return Cell(word, style=STATE_STYLE.get(word, ""))


def progress_cell(row: Overview) -> str:
    """`step 12/20`, or what a run without a step is doing."""
    if row.observation.queued_behind and not row.steps_done:
        return f"behind {row.observation.queued_behind}"
    return f"step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"


def _value_cell(row: Overview) -> Cell:
    """The metric at its last step; of a run that never validates, a value of its training."""
    from rlx.evidence.metrics import is_validation

    if row.validation is None:
        return Cell("–")
    step, value = row.validation
    validated = not row.metric or is_validation(row.metric)
    text = f"{value:.4f} @{step}" if validated else f"{value:.4f} @{step} (training)"
    return Cell(text, exclusion=row.verdict.exclusion(ended=row.state.is_terminal))


def _nodes(rows: Sequence[Overview]) -> list[Any]:
    """Say what happens on other nodes than the head, because it stands in no column."""
    from rich.text import Text

    return [Text(f"{row.ref.short_name}: {row.observation.detail}") for row in rows if row.observation.is_apart]


def _removed(rows: Sequence[Overview]) -> list[Any]:
    """Say who took a run out of names."""
    from rich.text import Text

    return [Text(row.removed.sentence) for row in rows if row.removed]


def _decided(rows: Sequence[Overview]) -> list[Any]:
    """Say why a run that goes on cannot end well any more, while its devices could do something else."""
    from rich.text import Text

    from rlx.evidence.outlook import outlook

    found = [(row, outlook(row.verdict, row.state)) for row in rows if not row.state.is_terminal]
    return [Text(f"{row.ref.short_name}: {seen.word}: {seen.why}") for row, seen in found if seen.why]


def _details(rows: Sequence[Overview], causes: Mapping[str, Hit | None]) -> list[Any]:
    from rich.text import Text

    from rlx.cli.text.tag_text import label_text
    from rlx.cli.text.usage_text import sample_lines
    from rlx.runs.index.labels import NO_LABEL

    lines = []
    for row in rows:
        lines += [f"{row.ref.run_id}: {row.verdict.sentence}", f"  {_where(row)}:{row.ref.shown_dir}"]
        lines += [f"  submitted by {_submitter(row)}"] if row.submitted_by else []
        lines += [f"  moved here before it had begun, from {', '.join(row.moved_from)}"] if row.moved_from else []
        lines += [f"  tagged {label_text(row.label)}"] if row.label != NO_LABEL else []
        lines += [f"  {row.observation.detail}"] if row.observation.detail else []
        lines += [f"  {line}" for line in sample_lines(row.sample, row.sample_age)]
        lines += [f"  why: {_cause_line(cause)}"] if (cause := causes.get(row.ref.run_id)) else []
        lines += [f"  {finding.id} {finding.message}" for finding in row.verdict.findings]
    return [Text(line) for line in lines]


def _cause_line(cause: Hit) -> str:
    """`RLX804 the memory of an NPU is full (line 4: RuntimeError: …)`."""
    text = " ".join(cause.text.split())
    said = text if len(text) <= _CAUSE_CHARACTERS else f"{text[:_CAUSE_CHARACTERS]}…"
    return f"{cause.id} {cause.name}{UNSURE.get(cause.kind, '')} (line {cause.line}: {said})"


def _where(row: Overview) -> str:
    """The copy of an adopted run is on this machine, whatever the host of the run."""
    from rlx.model import LOCAL

    return LOCAL.host if row.ref.place.is_local else row.ref.host


def _submitter(row: Overview) -> str:
    return f"{row.submitted_by.get('user', '?')}@{row.submitted_by.get('machine', '?')}"
