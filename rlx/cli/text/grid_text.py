"""A launch of several arms and seeds as a grid: a row a seed, a column an arm."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlx.cli.text.state_styles import STATE_STYLE, VERDICT_STYLE
from rlx.runs.duration import clock_time, duration, time_zone
from rlx.table import Cell, Column, Table

if TYPE_CHECKING:
    from rlx.runs.looking.forecast import Estimate
    from rlx.runs.looking.overview import Overview
    from rlx.runs.looking.sweep import Sweep


def is_grid(rows: Sequence[Overview]) -> bool:
    """Tell whether these runs of one launch are several arms with several seeds, one run each."""
    cells = [(row.ref.arm, row.ref.seed) for row in rows]
    arms, seeds = {arm for arm, _ in cells}, {seed for _, seed in cells}
    return len(arms) > 1 and len(seeds) > 1 and len(set(cells)) == len(cells)


def grid(rows: Sequence[Overview]) -> Table:
    """Return it as a table; what became of a run stands beside its steps, or below them."""
    arms, seeds = dict.fromkeys(row.ref.arm for row in rows), dict.fromkeys(row.ref.seed for row in rows)
    cells = {(row.ref.arm, row.ref.seed): _cell(row) for row in rows}
    hosts = {seed: list(dict.fromkeys(row.ref.host for row in rows if row.ref.seed == seed)) for seed in seeds}
    columns = [Column("SEED", [str(seed) for seed in seeds])]
    if len({row.ref.host for row in rows}) > 1:
        columns.append(Column("HOST", [", ".join(hosts[seed]) for seed in seeds]))
    return Table([*columns, *(Column(arm, [cells.get((arm, seed), "–") for seed in seeds]) for arm in arms)])


def _cell(row: Overview) -> Cell:
    """State and steps, and then what is to be known of it."""
    steps = f" {row.steps_done}/{row.steps_total or '?'}" if row.steps_done or row.state.is_terminal else ""
    word, state = _word(row), row.state.value
    style, word_style = STATE_STYLE.get(state, ""), VERDICT_STYLE.get(word, "yellow")
    return Cell(f"{state}{steps}", word, style=style, aside_style=word_style)


def _word(row: Overview) -> str:
    """Say the verdict's word of a run that has ended, behind how many one waits, and what speaks against one."""
    from rlx.evidence.outlook import ON_TRACK, outlook

    word = outlook(row.verdict, row.state).word
    if row.state.is_terminal or (row.steps_done and word != ON_TRACK):
        return word
    return f"behind {row.observation.queued_behind}" if row.observation.queued_behind else ""


def sweep_lines(rows: Sequence[Overview], sweep: Sweep) -> list[str]:
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


def end_words(end: Estimate, now: float) -> str:
    """Say when all will have ended, as far as that is known."""
    if end.seconds is not None:
        then = f"{clock_time(now + end.seconds)} {time_zone()}"
        return f"ends about {then}, in {duration(end.seconds)}, at the pace so far"
    when = f"not before about {clock_time(now + end.at_least)} {time_zone()}" if end.at_least else "at an unknown time"
    return f"ends {when}: {'; '.join(end.why)}"
