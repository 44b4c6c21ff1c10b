"""The paired probe by itself: which rows, which pairs, what is missing, and that a training never notices."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
import rlx_aqn_probe
from hypothesis import given
from hypothesis import strategies as st
from rlx_aqn_probe import NoiseProbe, fixed_rows
from syrupy.assertion import SnapshotAssertion

ROWS = [[1, 2, 3], [4, 5, 6]]


class Engine:
    """Scores each token with `level`, or does what an engine should not."""

    def __init__(self) -> None:
        self.level = 0.0
        self.fault: Any = None
        self.asked: list[Sequence[int]] = []
        self.forgotten = self.kept = 0
        self.forgets_nothing = False

    async def score(self, row: Sequence[int]) -> tuple[Sequence[int], list[float]]:
        self.asked.append(row)
        if self.fault is not None:
            return await self.fault(row)
        return row, [self.level] * (len(row) - 1)

    async def forget(self) -> None:
        self.forgotten += 1
        self.kept = self.kept if self.forgets_nothing else 0

    async def cached(self, row: Sequence[int]) -> int:
        found, self.kept = self.kept, len(row)
        return found


@pytest.fixture
def engine() -> Engine:
    return Engine()


def probed(engine: Engine, *life: Any) -> list[dict[str, Any]]:
    """The records of a life: a number is the level of a sync, a triple what is served then and its level."""
    lines: list[dict[str, Any]] = []
    probe = NoiseProbe(ROWS, engine.score, lambda _, line: lines.append(dict(line)), engine.forget, engine.cached)

    async def live() -> None:
        for each in life:
            if isinstance(each, tuple):
                phase, step, engine.level = each
                await probe.pair(phase, step, 0.05)
            else:
                engine.level = each
                await probe.clean()

    asyncio.run(live())
    return lines


@given(st.integers(1, 300), st.integers(0, 80), st.sets(st.integers(0, 300), max_size=50))
def test_rows_are_short_fixed_and_of_allowed_tokens(vocabulary: int, longest: int, banned: set[int]) -> None:
    state = random.getstate()
    rows = fixed_rows(vocabulary, longest, banned)
    assert rows == fixed_rows(vocabulary, longest, banned) and random.getstate() == state
    assert all(0 <= token < vocabulary and token not in banned for row in rows for token in row)
    assert {len(row) for row in rows} <= {min(60, longest)}
    assert bool(rows) == (longest > 1 and not set(range(vocabulary)) <= banned)


def test_pairs_are_of_one_sync(engine: Engine) -> None:
    lines = probed(engine, -1.0, ("rollout", 1, -1.25), ("validation", 0, -1.0), ("rollout", 1, -1.25), -9.0,
                   ("rollout", 2, -8.5))  # fmt: skip
    assert [(line["phase"], line["step"], line["delta"]) for line in lines] == [
        ("rollout", 1, 0.25), ("validation", 0, 0.0), ("rollout", 1, 0.25), ("rollout", 2, 0.5),
    ]  # fmt: skip
    assert all((line["floor"], line["tokens"], line["missing"]) == (0.0, 4, "") for line in lines)
    assert engine.asked[:2] == ROWS, "one row at a time"
    assert engine.forgotten == len(engine.asked) / 2 == 7, "each look leaves an empty cache; the first sync has two"


def test_what_stays_in_the_cache_is_counted_by_pair(engine: Engine) -> None:
    life = (-1.0, ("rollout", 1, -1.0), -1.0, ("rollout", 2, -1.0))
    assert [line["cached"] for line in probed(engine, *life)] == [0, 0]
    engine.kept, engine.forgets_nothing = 0, True
    assert [line["cached"] for line in probed(engine, *life)] == [len(ROWS[0])] * 2


def test_a_device_that_does_not_repeat_itself_says_by_how_much(engine: Engine) -> None:
    values = iter([0.0, 0.0, 0.001, 0.001, 0.0, 0.0])

    async def drifting(row: Sequence[int]) -> tuple[Sequence[int], list[float]]:
        return row, [next(values)] * (len(row) - 1)

    engine.fault = drifting
    (line,) = probed(engine, -1.0, ("rollout", 1, -1.0))
    assert (line["floor"], line["delta"]) == (0.001, 0.0)


async def other_tokens(row: Sequence[int]) -> Any:
    return [*row[1:], 0], [0.0] * (len(row) - 1)


async def too_few(row: Sequence[int]) -> Any:
    return row, [0.0]


async def no_number(row: Sequence[int]) -> Any:
    return row, [float("nan")] * (len(row) - 1)


async def broken(_: Sequence[int]) -> Any:
    raise RuntimeError("the engine\nis gone")


async def silent(_: Sequence[int]) -> Any:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("fault", "words"),
    [(other_tokens, "other tokens"), (too_few, "other tokens"), (no_number, "no number"),
     (broken, "RuntimeError: the engine"), (silent, "no answer within 0.05 s")],
)  # fmt: skip
def test_what_fails_is_missing(engine: Engine, fault: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # An engine that does answer is given its time: a busy machine takes longer than that for any answer.
    monkeypatch.setattr(rlx_aqn_probe, "FIRST_LIMIT_S", 0.05 if fault is silent else 60)
    engine.fault = fault
    first, second = probed(engine, -1.0, ("rollout", 1, -1.0), ("rollout", 1, -1.0))
    assert words in first["missing"] and "\n" not in first["missing"]
    assert (first["delta"], first["floor"], first["tokens"]) == (None, None, 0)
    assert second["missing"] == first["missing"]
    assert len(engine.asked) == 1, "without a clean score nothing is asked"


def test_scores_and_an_emptied_cache_have_one_limit_together(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlx_aqn_probe, "FIRST_LIMIT_S", 0.5)

    async def slow(row: Sequence[int]) -> Any:
        engine.fault = None
        await asyncio.sleep(0.3)
        return row, [0.0] * (len(row) - 1)

    async def slowly_forgotten() -> None:
        await asyncio.sleep(0.3)

    engine.fault = slow
    monkeypatch.setattr(engine, "forget", slowly_forgotten)
    (line,) = probed(engine, -1.0, ("rollout", 1, -1.0))
    assert "0.5 s" in line["missing"]


def test_after_three_misses_nobody_is_asked_again(engine: Engine) -> None:
    engine.fault = broken
    lines = probed(engine, *([0.0, ("rollout", 1, 0.0)] * 5))
    assert len(engine.asked) == 3 and len(lines) == 5 and all(line["missing"] for line in lines)


def test_a_late_look_costs_one_pair(engine: Engine) -> None:
    lines: list[dict[str, Any]] = []
    probe = NoiseProbe(ROWS, engine.score, lambda _, line: lines.append(dict(line)))

    async def live() -> None:
        await probe.clean()
        engine.fault = broken
        await probe.pair("rollout", 1, 0.05)
        engine.fault = None
        await probe.pair("rollout", 1, 0.05)

    asyncio.run(live())
    assert [line["delta"] for line in lines] == [None, 0.0]


def test_the_first_look_may_take_longer_than_later_ones(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine loads and compiles for its first scores; a look that is missing there costs all pairs of the sync."""
    monkeypatch.setattr(rlx_aqn_probe, "LIMIT_S", 0.05)
    lines: list[dict[str, Any]] = []
    probe = NoiseProbe(ROWS, engine.score, lambda _, line: lines.append(dict(line)))

    async def warming_up(row: Sequence[int]) -> Any:
        engine.fault = None
        await asyncio.sleep(0.2)
        monkeypatch.setattr(rlx_aqn_probe, "LIMIT_S", 60)
        return row, [0.0] * (len(row) - 1)

    async def live() -> None:
        engine.fault = warming_up
        await probe.clean()
        await probe.pair("rollout", 1, 0.05)
        engine.fault = silent
        monkeypatch.setattr(rlx_aqn_probe, "LIMIT_S", 0.05)
        await probe.pair("rollout", 1, 0.05)

    asyncio.run(live())
    first, second = lines
    assert (first["delta"], first["missing"]) == (0.0, "")
    assert second["delta"] is None and "0.05 s" in second["missing"]


def test_without_rows_or_without_a_sync_it_says_so(engine: Engine, wording: SnapshotAssertion) -> None:
    (line,) = probed(engine, ("rollout", 1, 0.0))
    assert line["missing"] == wording
    lines: list[dict[str, Any]] = []
    asyncio.run(NoiseProbe([], engine.score, lambda _, line: lines.append(dict(line))).pair("rollout", 1, 0.0))
    assert "no token" in lines[0]["missing"] and not engine.asked
