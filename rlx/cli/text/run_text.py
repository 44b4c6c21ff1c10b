"""The runs of `rlx status` as tables."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlx.cli.text.diagnose_text import UNSURE
from rlx.cli.text.table_text import fits, fitted
from rlx.runs.duration import age, clock_time, duration, time_zone
from rlx.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from rlx.evidence import Verdict
    from rlx.evidence.diagnosis import Hit
    from rlx.evidence.reading.usage_file import DeviceUse, Sample
    from rlx.runs import RunRef
    from rlx.runs.index.labels import RunLabel
    from rlx.runs.status.forecast import Sweep, TimeEstimate
    from rlx.runs.status.snapshots import Snapshot

STATE_STYLE = {"finished": "green", "running": "cyan", "starting": "cyan", "failed": "red", "lost": "red"} | {
    "unreachable": "yellow",
    "stalled": "yellow",
    "removed": "dim",
}
VERDICT_STYLE = {"valid": "green", "on track": "green", "contradicted": "red", "invalid": "red"} | {
    "incomplete": "red",
    "cannot become valid": "red",
    "contradicted so far": "red",
}
_CAUSE_CHARACTERS = 160
_NO_NOISE = ("", "–", "none", "never")
_SAYS = {
    "missing": "its program (npu-smi, nvidia-smi) is not where the run is",
    "silent": "its program (npu-smi, nvidia-smi) did not answer in time",
    "unreadable": "its program (npu-smi, nvidia-smi) says nothing that rlx can read",
}


def tables(
    rows: Sequence[Snapshot], verbose: bool, causes: Mapping[str, Hit | None], width: int, as_grid: bool = True
) -> Group:
    """A table for each launch, at most `width` cells wide: its runs are the ones that belong side by side.

    Several arms with several seeds are a grid where there is room for one, unless not `as_grid`. `causes`: why runs
    failed, by id; shown if `verbose`.
    """
    from rich.console import Group

    from rlx.runs.status.forecast import sweeps

    parts: list[Any] = []
    groups = (list(group) for _, group in groupby(rows, key=lambda row: row.ref.launch_id))
    for launched, sweep in zip(groups, sweeps(rows), strict=True):
        parts += _sweep(launched, sweep, width, as_grid) if is_grid(launched) else [_list(launched, sweep, width)]
        parts.extend(_details(launched, causes) if verbose else [*_nodes(launched), *_decided(launched)])
        parts.extend(_removed(launched))
    return Group(*parts)


def _sweep(rows: Sequence[Snapshot], sweep: Sweep, width: int, as_grid: bool) -> list[Any]:
    from rich.text import Text

    shown = [_list(rows, sweep, width)]
    if as_grid and fits(drawn := grid(rows), width):
        # The caption of a table is no wider than that.
        shown = [Text(_title(rows, sweep), "bold"), fitted(drawn, width)]
    return [*shown, *map(Text, sweep_lines(rows, sweep))]


def _list(rows: Sequence[Snapshot], sweep: Sweep, width: int) -> RenderableType:
    return fitted(Table(_columns(rows), _title(rows, sweep)), width)


def _title(rows: Sequence[Snapshot], sweep: Sweep) -> str:
    container = f":{rows[0].container}" if rows[0].container else ""
    return f"{sweep.name} · launch {sweep.launch_id} · {', '.join(sweep.hosts)}{container}"


def _columns(rows: Sequence[Snapshot]) -> list[Column]:
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


def has_noise(rows: Sequence[Snapshot]) -> bool:
    """Tell whether noise is planned for one of these runs, or was found in one."""
    planned = any(row.expectations is not None and row.expectations.noise is not None for row in rows)
    return planned or any(row.verdict.noise.split(" ")[0] not in _NO_NOISE for row in rows)


def _age(row: Snapshot) -> str:
    """Since the run began, by the clock of its host."""
    seconds = row.observation.seconds_since_start
    # Each as wide: a table that is drawn again stays as it is.
    return f"{age(seconds):<6}" if seconds is not None else "–"


def _state_cell(row: Snapshot) -> Cell:
    word = "removed" if row.removed else row.state.value
    return Cell(word, style=STATE_STYLE.get(word, ""))


def progress_cell(row: Snapshot) -> str:
    """`step 12/20`, or what a run without a step is doing."""
    if row.observation.queued_behind and not row.steps_done:
        return f"behind {row.observation.queued_behind}"
    return f"step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"


def _value_cell(row: Snapshot) -> Cell:
    """The metric at its last step; of a run that never validates, a value of its training."""
    from rlx.evidence.metrics import is_validation

    if row.validation is None:
        return Cell("–")
    step, value = row.validation
    validated = not row.metric or is_validation(row.metric)
    text = f"{value:.4f} @{step}" if validated else f"{value:.4f} @{step} (training)"
    return Cell(text, exclusion=row.verdict.exclusion(ended=row.state.is_terminal))


def _nodes(rows: Sequence[Snapshot]) -> list[Any]:
    """Say what happens on other nodes than the head, because it stands in no column."""
    from rich.text import Text

    return [Text(f"{row.ref.short_name}: {row.observation.detail}") for row in rows if row.observation.is_apart]


def _removed(rows: Sequence[Snapshot]) -> list[Any]:
    """Say who took a run out of names."""
    from rich.text import Text

    return [Text(row.removed.sentence) for row in rows if row.removed]


def _decided(rows: Sequence[Snapshot]) -> list[Any]:
    """Say why a run that goes on cannot end well any more, while its devices could do something else."""
    from rich.text import Text

    from rlx.evidence.outlook import outlook

    found = [(row, outlook(row.verdict, row.state)) for row in rows if not row.state.is_terminal]
    return [Text(f"{row.ref.short_name}: {seen.word}: {seen.why}") for row, seen in found if seen.why]


def _details(rows: Sequence[Snapshot], causes: Mapping[str, Hit | None]) -> list[Any]:
    from rich.text import Text

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


def _where(row: Snapshot) -> str:
    """The copy of an adopted run is on this machine, whatever the host of the run."""
    from rlx.model import LOCAL

    return LOCAL.host if row.ref.place.is_local else row.ref.host


def _submitter(row: Snapshot) -> str:
    return f"{row.submitted_by.get('user', '?')}@{row.submitted_by.get('machine', '?')}"


def is_grid(rows: Sequence[Snapshot]) -> bool:
    """Tell whether these runs of one launch are several arms with several seeds, one run each."""
    cells = [(row.ref.arm, row.ref.seed) for row in rows]
    arms, seeds = {arm for arm, _ in cells}, {seed for _, seed in cells}
    return len(arms) > 1 and len(seeds) > 1 and len(set(cells)) == len(cells)


def grid(rows: Sequence[Snapshot]) -> Table:
    """Return it as a table; what became of a run stands beside its steps, or below them."""
    arms, seeds = dict.fromkeys(row.ref.arm for row in rows), dict.fromkeys(row.ref.seed for row in rows)
    cells = {(row.ref.arm, row.ref.seed): _cell(row) for row in rows}
    hosts = {seed: list(dict.fromkeys(row.ref.host for row in rows if row.ref.seed == seed)) for seed in seeds}
    columns = [Column("SEED", [str(seed) for seed in seeds])]
    if len({row.ref.host for row in rows}) > 1:
        columns.append(Column("HOST", [", ".join(hosts[seed]) for seed in seeds]))
    return Table([*columns, *(Column(arm, [cells.get((arm, seed), "–") for seed in seeds]) for arm in arms)])


def _cell(row: Snapshot) -> Cell:
    """State and steps, and then what is to be known of it."""
    steps = f" {row.steps_done}/{row.steps_total or '?'}" if row.steps_done or row.state.is_terminal else ""
    word, state = _word(row), row.state.value
    style, word_style = STATE_STYLE.get(state, ""), VERDICT_STYLE.get(word, "yellow")
    return Cell(f"{state}{steps}", word, style=style, aside_style=word_style)


def _word(row: Snapshot) -> str:
    """Say the verdict's word of a run that has ended, behind how many one waits, and what speaks against one."""
    from rlx.evidence.outlook import ON_TRACK, outlook

    word = outlook(row.verdict, row.state).word
    if row.state.is_terminal or (row.steps_done and word != ON_TRACK):
        return word
    return f"behind {row.observation.queued_behind}" if row.observation.queued_behind else ""


def sweep_lines(rows: Sequence[Snapshot], sweep: Sweep) -> list[str]:
    """How many have ended and as what, what waits and why, and about when all will have ended."""
    ended = Counter(row.verdict.word for row in rows if row.state.is_terminal)
    words = f" ({', '.join(f'{number} {word}' for word, number in ended.items())})" if ended else ""
    going = Counter(row.state for row in rows if not row.state.is_terminal)
    counts = [f"{sweep.ended} of {len(rows)} ended{words}", *(f"{number} {state}" for state, number in going.items())]
    names = {row.ref.run_id: row.ref.short_name for row in rows}
    waiting = [
        f"waiting on {each.host}: {names[each.run_ids[0]]} ({each.why})"
        + (f", then {len(each.run_ids) - 1} more" if len(each.run_ids) > 1 else "")
        for each in sweep.waiting
    ]
    return [" · ".join(counts), *waiting, *([end_words(sweep.end, time.time())] if sweep.end else [])]


def end_words(end: TimeEstimate, now: float) -> str:
    """Say when all will have ended, as far as that is known."""
    if end.seconds is not None:
        then = f"{clock_time(now + end.seconds)} {time_zone()}"
        return f"ends about {then}, in {duration(end.seconds)}, at the pace so far"
    when = f"not before about {clock_time(now + end.at_least)} {time_zone()}" if end.at_least else "at an unknown time"
    return f"ends {when}: {'; '.join(end.why)}"


def sample_lines(sample: Sample | None, age: float | None) -> Iterator[str]:
    """A line a device, then its host. `age` in seconds."""
    if sample is None:
        return
    when = "" if age is None else f", {duration(age)} ago"
    if sample.says:
        yield f"devices not seen{when}: {_SAYS[sample.says]}"
    for device in sample.devices:
        yield f"device {device.device}{when}: {', '.join(_device(device))}"
    if host := ", ".join(_host(sample)):
        yield f"host{when}: {host}"


def _device(device: DeviceUse) -> Iterator[str]:
    if device.used is not None and device.total is not None:
        yield f"{_gib(device.used)} of {_gib(device.total)} GiB"
    if device.busy is not None:
        yield f"utilisation {device.busy} %"
    if device.celsius is not None:
        yield f"{device.celsius} °C"
    if device.others:
        yield f"{_gib(device.others)} GiB of it of processes that are not of the run"


def _host(sample: Sample) -> Iterator[str]:
    if sample.host:
        yield f"{_gib(sample.host[0])} of {_gib(sample.host[1])} GiB"
    if sample.group:
        yield f"its cgroup {_gib(sample.group[0])} of {_gib(sample.group[1])}"
    if sample.own is not None and sample.processes:
        yield f"the run {_gib(sample.own)} in {sample.processes} process{'es' * (sample.processes > 1)}"


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f}"


def label_text(label: RunLabel) -> str:
    """`keep, paper · lr was wrong`, or that there is nothing."""
    parts = [", ".join(label.tags) or "no tags", label.note]
    return " · ".join(part for part in parts if part)


def run_labels(refs: Sequence[RunRef]) -> dict[str, str]:
    """Run id -> the shortest name that tells the shown runs apart: arm, else arm and seed, else the id."""
    if len({ref.arm for ref in refs}) == len(refs):
        return {ref.run_id: ref.arm for ref in refs}
    if len({(ref.arm, ref.seed) for ref in refs}) == len(refs):
        return {ref.run_id: ref.short_name for ref in refs}
    return {ref.run_id: ref.run_id for ref in refs}


def row_document(row: Snapshot) -> Mapping[str, Any]:
    """Show a run as `status` and `wait` do; seconds and UTC epochs."""
    from rlx.evidence.outlook import outlook

    seen, verdict = row.observation, row.verdict
    return {
        "run_id": row.ref.run_id,
        "launch_id": row.ref.launch_id,
        "name": row.ref.name,
        "arm": row.ref.arm,
        "seed": row.ref.seed,
        "host": row.ref.host,
        "destination": row.ref.place.destination,
        "container": row.container,
        "submitted_by": row.submitted_by,
        "moved_from": row.moved_from,
        "run_dir": row.ref.shown_dir,
        "created": row.ref.created,
        "state": row.state,
        "detail": seen.detail,
        "last_known": seen.last_known,
        "last_seen_epoch": seen.last_seen_epoch,
        "unreachable_since": seen.unreachable_since,
        "exit_code": seen.exit_code,
        "queued_behind": seen.queued_behind,
        "attempt": seen.attempt,
        "processes": seen.members,
        "started_epoch": seen.started_epoch,
        "ended_epoch": seen.ended_epoch,
        "log_bytes": seen.log_bytes,
        "steps_done": row.steps_done,
        "steps_total": row.steps_total,
        "step_seconds": row.step_seconds,
        "seconds_left": row.seconds_left,
        "metric": row.metric,
        "last_validation": {"step": row.validation[0], "value": row.validation[1]} if row.validation else None,
        "sample": row.sample,
        "sample_age": row.sample_age,
        "tags": row.label.tags,
        "note": row.label.note or None,
        "removed": row.removed,
        "noise": verdict.noise,
        "outlook": outlook(verdict, row.state)._asdict(),
        "verdict": verdict_document(verdict),
    }


def verdict_document(verdict: Verdict) -> Mapping[str, Any]:
    """Show what may be believed of a run, as every command does."""
    return {
        "status": verdict.status,
        "dissent": verdict.dissent,
        "sentence": verdict.sentence,
        "findings": verdict.findings,
        "rules": verdict.rules,
        "traces": verdict.traces,
        "waived": verdict.waived,
    }
