"""Runs as tables, as `rlx status` shows them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlx.cli.frame.streams import shortened
from rlx.cli.text.diagnose_text import UNSURE
from rlx.cli.text.table_text import fits, fitted, paragraph
from rlx.model import message_text
from rlx.model.launch_plan import SCRIPT_COMMAND, script_words
from rlx.runs.duration import age, clock_time, duration, time_zone
from rlx.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.evidence.diagnosis import Hit
    from rlx.evidence.reading.usage_file import DeviceSample, UsageSample
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
_GIVEN_CHARACTERS = 200
_NO_NOISE = ("", "–", "none", "never")
_SAYS = {
    "missing": "its program (npu-smi, nvidia-smi) is not where the run is",
    "silent": "its program (npu-smi, nvidia-smi) did not answer in time",
    "unreadable": "its program (npu-smi, nvidia-smi) printed nothing that rlx can read",
}


def tables(
    rows: Sequence[Snapshot], verbose: bool, causes: Mapping[str, Hit | None], width: int, as_grid: bool = True
) -> Group:
    """Return a table for each launch, and one for the launches of a script's name, at most `width` cells wide.

    Several arms with several seeds are a grid if there is room for it and `as_grid` is set. `causes`: why runs failed,
    by id; shown if `verbose`.
    """
    from rich.console import Group

    from rlx.runs.status.forecast import sweeps

    parts: list[Any] = []
    groups = (list(group) for _, group in groupby(rows, key=lambda row: row.ref.group_id))
    for launched, sweep in zip(groups, sweeps(rows), strict=True):
        listed = Table(_columns(launched), _title(launched, sweep))
        if is_grid(launched):
            drawn = replace(grid(launched), caption=_title(launched, sweep))
            parts.append(fitted(drawn if as_grid and fits(drawn, width) else listed, width))
            lines = sweep_lines(launched, sweep)
        else:
            parts.append(fitted(listed, width))
            lines = []
        lines += _given(launched)
        lines += _details(launched, causes) if verbose else _remarks(launched)
        # Who hid a run, and when.
        lines += [row.removed.sentence for row in launched if row.removed]
        parts += [paragraph(line, width) for line in lines]
    return Group(*parts)


def _title(rows: Sequence[Snapshot], sweep: Sweep) -> str:
    container = f":{rows[0].container}" if rows[0].container else ""
    others = len({row.ref.launch_id for row in rows}) - 1
    launch = f"launch {sweep.launch_id}" + (f" and {others} before" if others else "")
    return f"{sweep.name} · {launch} · {', '.join(sweep.hosts)}{container}"


def _columns(rows: Sequence[Snapshot]) -> list[Column]:
    """Return the columns, ranked: tags are left out first, then age, pace, time left, value, progress and noise."""
    from rlx.evidence.grammars import core_prefixes
    from rlx.evidence.verdict import outlook

    several_seeds = len({row.ref.seed for row in rows}) > 1
    words = [outlook(row.verdict, row.state).word for row in rows]
    states = ["removed" if row.removed else row.state.value for row in rows]
    tags = [" ".join(row.label.tags) for row in rows]
    hosts = [row.ref.host for row in rows]
    left = [duration(row.seconds_left) if row.seconds_left is not None else "–" for row in rows]
    # Since the runs began; of a fixed width, so that the table of `status -w` does not move.
    began = [row.observation.seconds_since_start for row in rows]
    ages = ["–" if seconds is None else f"{age(seconds):<6}" for seconds in began]
    columns = [
        Column("ARM", [row.ref.short_name if several_seeds else row.ref.arm for row in rows]),
        Column("STATE", [Cell(word, style=STATE_STYLE.get(word, "")) for word in states]),
        Column("PROGRESS", [_progress(row) for row in rows], rank=2),
        Column("S/STEP", [f"{row.step_seconds:.1f}" if row.step_seconds is not None else "–" for row in rows], rank=5),
        *([Column("LEFT", left, rank=4)] if any(each != "–" for each in left) else []),
        Column(core_prefixes()[0].rstrip("/").upper(), [_value_cell(row) for row in rows], rank=3),
        *([Column("NOISE", [row.verdict.noise for row in rows], rank=1, flows=True)] if _has_noise(rows) else []),
        Column("VERDICT", [Cell(word, style=VERDICT_STYLE.get(word, "yellow")) for word in words], flows=True),
    ]
    columns += [Column("AGE", ages, rank=6)] if any(each != "–" for each in ages) else []
    columns[1:1] = [Column("HOST", hosts)] if len({*hosts}) > 1 else []
    return [*columns, Column("TAGS", tags, rank=7, flows=True)] if any(tags) else columns


def _has_noise(rows: Sequence[Snapshot]) -> bool:
    """Tell whether noise is planned for one of these runs, or was found in one."""
    planned = any(row.expectations is not None and row.expectations.noise is not None for row in rows)
    return planned or any(row.verdict.noise.split(" ")[0] not in _NO_NOISE for row in rows)


def _progress(row: Snapshot) -> str:
    """Return `step 12/20`, or how many runs a run without a step is waiting for."""
    if row.observation.queued_behind and not row.steps_done:
        return f"behind {row.observation.queued_behind}"
    return f"step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"


def _value_cell(row: Snapshot) -> Cell:
    """Return the metric at its last step; for a run that never validates, a training metric."""
    from rlx.evidence.metrics import is_validation

    if row.validation is None:
        return Cell("–")
    step, value = row.validation
    validated = not row.metric or is_validation(row.metric)
    text = f"{value:.4f} @{step}" if validated else f"{value:.4f} @{step} (training)"
    return Cell(text, exclusion=row.verdict.exclusion(ended=row.state.is_terminal))


def _given(rows: Sequence[Snapshot]) -> list[str]:
    """Return what was given to the arms of a script where that differs: `hot: LR=4e-4`."""
    arms = {row.ref.arm: script_words(row.manifest.plan) for row in rows if row.manifest}
    keys = dict.fromkeys(key for words in arms.values() for key in words)
    differing = [key for key in keys if len({words.get(key) for words in arms.values()}) > 1]
    differing.sort(key=SCRIPT_COMMAND.__eq__)
    found = {arm: " ".join(words[key] for key in differing if key in words) for arm, words in arms.items()}
    return [f"{arm}: {shortened(text, _GIVEN_CHARACTERS)}" for arm, text in found.items() if text]


def _remarks(rows: Sequence[Snapshot]) -> list[str]:
    """Return what no column shows: the state of other nodes, and why a run cannot become valid any more."""
    from rlx.evidence.verdict import outlook

    nodes = [f"{row.ref.short_name}: {row.observation.detail}" for row in rows if row.observation.is_apart]
    running = [(row, outlook(row.verdict, row.state)) for row in rows if not row.state.is_terminal]
    return [*nodes, *(f"{row.ref.short_name}: {seen.word}: {seen.why}" for row, seen in running if seen.why)]


def _details(rows: Sequence[Snapshot], causes: Mapping[str, Hit | None]) -> list[str]:
    from rlx.runs.index.labels import NO_LABEL

    lines = []
    for row in rows:
        lines += [f"{row.ref.run_id}: {row.verdict.sentence}", f"  {_where(row)}:{row.ref.shown_dir}"]
        if row.submitted_by:
            lines.append(
                "  submitted by {}@{}".format(*(row.submitted_by.get(key, "?") for key in ("user", "machine")))
            )
        lines += [f"  moved here before it had begun, from {', '.join(row.moved_from)}"] if row.moved_from else []
        lines += [f"  tagged {label_text(row.label)}"] if row.label != NO_LABEL else []
        lines += [f"  {row.observation.detail}"] if row.observation.detail else []
        lines += [f"  {line}" for line in sample_lines(row.sample, row.sample_age)]
        lines += [f"  why: {_cause_line(cause)}"] if (cause := causes.get(row.ref.run_id)) else []
        lines += [f"  {finding.severity} {finding.id} {message_text(finding)}" for finding in row.verdict.findings]
    return lines


def _cause_line(cause: Hit) -> str:
    """Return `RLX804 the memory of an NPU is full (line 4: RuntimeError: …)`."""
    text = shortened(" ".join(cause.text.split()), _CAUSE_CHARACTERS)
    return f"{cause.id} {cause.name}{UNSURE.get(cause.kind, '')} (line {cause.line}: {text})"


def _where(row: Snapshot) -> str:
    """Return the host of the run directory; the copy of a tracked run is on this machine."""
    from rlx.model import LOCAL

    return LOCAL.host if row.ref.place.is_local else row.ref.host


def is_grid(rows: Sequence[Snapshot]) -> bool:
    """Tell whether these runs of one launch are several arms with several seeds, one run each."""
    cells = [(row.ref.arm, row.ref.seed) for row in rows]
    arms, seeds = {arm for arm, _ in cells}, {seed for _, seed in cells}
    return len(arms) > 1 and len(seeds) > 1 and len(set(cells)) == len(cells)


def grid(rows: Sequence[Snapshot]) -> Table:
    """Return a row per seed and a column per arm; the verdict of a run is beside its steps, or below them."""
    arms, seeds = dict.fromkeys(row.ref.arm for row in rows), dict.fromkeys(row.ref.seed for row in rows)
    cells = {(row.ref.arm, row.ref.seed): _cell(row) for row in rows}
    hosts = {seed: list(dict.fromkeys(row.ref.host for row in rows if row.ref.seed == seed)) for seed in seeds}
    columns = [Column("SEED", [str(seed) for seed in seeds])]
    if len({row.ref.host for row in rows}) > 1:
        columns.append(Column("HOST", [", ".join(hosts[seed]) for seed in seeds]))
    return Table([*columns, *(Column(arm, [cells.get((arm, seed), "–") for seed in seeds]) for arm in arms)])


def _cell(row: Snapshot) -> Cell:
    steps = f" {row.steps_done}/{row.steps_total or '?'}" if row.steps_done or row.state.is_terminal else ""
    word, state = _word(row), row.state.value
    style, word_style = STATE_STYLE.get(state, ""), VERDICT_STYLE.get(word, "yellow")
    return Cell(f"{state}{steps}", word, style=style, aside_style=word_style)


def _word(row: Snapshot) -> str:
    """Return the verdict of a run that has ended or gone wrong, or how many runs a queued one waits for."""
    from rlx.evidence.verdict import ON_TRACK, outlook

    word = outlook(row.verdict, row.state).word
    if row.state.is_terminal or (row.steps_done and word != ON_TRACK):
        return word
    return f"behind {row.observation.queued_behind}" if row.observation.queued_behind else ""


def sweep_lines(rows: Sequence[Snapshot], sweep: Sweep) -> list[str]:
    """Return how many runs have ended and how, which wait and why, and when all are expected to have ended."""
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
    """Return when all runs are expected to have ended, as far as that is known."""
    if end.seconds is not None:
        then = f"{clock_time(now + end.seconds)} {time_zone()}"
        return f"ends about {then}, in {duration(end.seconds)}, at the pace so far"
    when = f"not before about {clock_time(now + end.at_least)} {time_zone()}" if end.at_least else "at an unknown time"
    return f"ends {when}: {'; '.join(end.why)}"


def sample_lines(sample: UsageSample | None, age: float | None) -> Iterator[str]:
    """Yield a line per device, then one for the host. `age` is in seconds."""
    if sample is None:
        return
    when = "" if age is None else f", {duration(age)} ago"
    if sample.says:
        yield f"devices not seen{when}: {_SAYS[sample.says]}"
    for device in sample.devices:
        yield f"device {device.device}{when}: {', '.join(_device(device))}"
    if host := ", ".join(_host(sample)):
        yield f"host{when}: {host}"


def _device(device: DeviceSample) -> Iterator[str]:
    if device.used is not None and device.total is not None:
        yield f"{_gib(device.used)} of {_gib(device.total)} GiB"
    if device.busy is not None:
        yield f"utilisation {device.busy} %"
    if device.celsius is not None:
        yield f"{device.celsius} °C"
    if device.others:
        yield f"{_gib(device.others)} GiB of it used by processes outside the run"


def _host(sample: UsageSample) -> Iterator[str]:
    if sample.host:
        yield f"{_gib(sample.host[0])} of {_gib(sample.host[1])} GiB"
    if sample.group:
        yield f"its cgroup {_gib(sample.group[0])} of {_gib(sample.group[1])}"
    if sample.own is not None and sample.processes:
        yield f"the run {_gib(sample.own)} in {sample.processes} process{'es' * (sample.processes > 1)}"


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f}"


def label_text(label: RunLabel) -> str:
    """Return tags and note: `keep, paper · lr was wrong`, or `no tags`."""
    parts = [", ".join(label.tags) or "no tags", label.note]
    return " · ".join(part for part in parts if part)


def run_labels(refs: Sequence[RunRef]) -> dict[str, str]:
    """Map each run id to the shortest name that is unique here: the arm, else arm and seed, else the id."""
    if len({ref.arm for ref in refs}) == len(refs):
        return {ref.run_id: ref.arm for ref in refs}
    if len({(ref.arm, ref.seed) for ref in refs}) == len(refs):
        return {ref.run_id: ref.short_name for ref in refs}
    return {ref.run_id: ref.run_id for ref in refs}
