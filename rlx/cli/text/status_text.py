"""The runs of `rlx status` as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlx.cli.text.diagnose_text import UNSURE
from rlx.runs.duration import duration

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.evidence.diagnosis import Hit
    from rlx.runs.looking.overview import Overview

_CAUSE_CHARACTERS = 160
_STATE_STYLE = {"finished": "green", "running": "cyan", "starting": "cyan", "failed": "red", "lost": "red"} | {
    "unreachable": "yellow",
    "stalled": "yellow",
}
_VERDICT_STYLE = {
    "valid": "green",
    "unverified": "yellow",
    "incomplete": "yellow",
    "contradicted": "red",
    "invalid": "red",
}


def tables(rows: Sequence[Overview], verbose: bool, causes: Mapping[str, Hit | None]) -> Group:
    """A table for each launch: its runs are the ones that belong side by side.

    `causes`: why runs failed, by id; shown if `verbose`.
    """
    from rich.console import Group

    parts: list[Any] = []
    for _, group in groupby(rows, key=lambda row: row.ref.launch_id):
        launched = list(group)
        parts.append(_table(launched))
        parts.extend(_details(launched, causes) if verbose else _nodes(launched))
    return Group(*parts)


def _table(rows: Sequence[Overview]) -> Any:
    from rich.table import Table
    from rich.text import Text

    from rlx.evidence.grammars import core_prefixes

    first = rows[0].ref
    container = f":{rows[0].container}" if rows[0].container else ""
    title = Text(f"{first.name} · launch {first.launch_id} · {first.host}{container}")
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in (
        "ARM",
        "STATE",
        "PROGRESS",
        "S/STEP",
        "LEFT",
        core_prefixes()[0].rstrip("/").upper(),
        "NOISE",
        "VERDICT",
    ):
        table.add_column(heading, no_wrap=heading != "NOISE", overflow="fold")
    several_seeds = len({row.ref.seed for row in rows}) > 1
    for row in rows:
        state, verdict = row.state.value, row.verdict.word
        table.add_row(
            Text(row.ref.short_name if several_seeds else row.ref.arm),
            Text(state, style=_STATE_STYLE.get(state, "")),
            progress_cell(row),
            f"{row.step_seconds:.1f}" if row.step_seconds is not None else "–",
            duration(row.seconds_left) if row.seconds_left is not None else "–",
            _value_cell(row),
            Text(row.verdict.noise),
            Text(verdict, style=_VERDICT_STYLE[verdict]),
        )
    return table


def progress_cell(row: Overview) -> str:
    """`step 12/20`, or what a run without a step is doing."""
    if row.observation.queued_behind and not row.steps_done:
        return f"behind {row.observation.queued_behind}"
    return f"step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"


def _value_cell(row: Overview) -> str:
    """The metric at its last step; of a run that never validates, a value of its training."""
    from rlx.evidence.metrics import is_validation

    if row.validation is None:
        return "–"
    step, value = row.validation
    validated = not row.metric or is_validation(row.metric)
    return f"{value:.4f} @{step}" if validated else f"{value:.4f} @{step} (training)"


def _nodes(rows: Sequence[Overview]) -> list[Any]:
    """Say what happens on other nodes than the head, because it stands in no column."""
    from rich.text import Text

    return [Text(f"{row.ref.short_name}: {row.observation.detail}") for row in rows if row.observation.is_apart]


def _details(rows: Sequence[Overview], causes: Mapping[str, Hit | None]) -> list[Any]:
    from rich.text import Text

    lines = []
    for row in rows:
        lines += [f"{row.ref.run_id}: {row.verdict.sentence}", f"  {_where(row)}:{row.ref.shown_dir}"]
        lines += [f"  submitted by {_submitter(row)}"] if row.submitted_by else []
        lines += [f"  {row.observation.detail}"] if row.observation.detail else []
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
    from rlx.plan import LOCAL

    return LOCAL.host if row.ref.place.is_local else row.ref.host


def _submitter(row: Overview) -> str:
    return f"{row.submitted_by.get('user', '?')}@{row.submitted_by.get('machine', '?')}"
