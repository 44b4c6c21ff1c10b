"""The paired probe: does the engine that serves score the same tokens otherwise, once the noise is in its weights?

Nothing in here knows the engine. A back-end gives `score`, which has one row of tokens scored by the path that answers
requests, and calls

    probe = NoiseProbe(rows, score, record, forget)
    await probe.clean()                        # after each weight sync, before the noise
    await probe.pair(phase, step, sigma)       # each time that the engine has been told what it serves

at moments when nothing else is in flight: in bfloat16 company in a batch moves a score by more than small noise does.
The pairs are of one sync, since training moves scores as much as noise does. A look that fails or is late is recorded
as missing. Nothing in here raises, waits beyond the limit, asks again, or draws from a shared random generator.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

ROWS, TOKENS, SEED = 4, 60, 20251011
LIMIT_S = 20.0
# For its first scores an engine loads and compiles: with vLLM on a CPU, which compiles nothing, they take ten times as
# long as later ones; elsewhere vLLM gives its ranking of scores to torch.compile (vllm/v1/sample/ops/logprobs.py).
FIRST_LIMIT_S = 60.0
# A look that cannot be had costs up to the limit, so that is tried a few times and not at every sync.
_MOST_MISSES = 3

Row = Sequence[int]
Score = Callable[[Row], Awaitable[tuple[Row, Sequence[float]]]]
"""The tokens that the engine says it scored, and of each but the first its log-probability after those before it."""
Cached = Callable[[Row], Awaitable[int]]
"""How many tokens of a row the engine takes from its prefix cache when it is asked as a prompt is."""
Record = Callable[[str, Mapping[str, object]], None]
Forget = Callable[[], Awaitable[object]]


def fixed_rows(vocabulary: int, longest: int, banned: Collection[int] = ()) -> list[list[int]]:
    """Return the same rows in every process and run: random tokens below `vocabulary` that are not `banned`.

    A row has at most `longest` tokens, which is one less than what the engine takes. No rows where none can be.
    """
    draw, banned = random.Random(SEED), set(banned)
    allowed = [token for token in range(vocabulary) if token not in banned]
    length = min(TOKENS, longest)
    return [draw.choices(allowed, k=length) for _ in range(ROWS)] if allowed and length > 1 else []


class NoiseProbe:
    """Scores the rows on clean and on noisy weights, and records how far the pairs are apart.

    `forget` empties the engine's prefix cache, which scoring fills, and `cached` asks what is in it; None where there
    is none. Clean weights are scored twice after the first sync: what differs there is the device's own floor.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        score: Score,
        record: Record,
        forget: Forget | None = None,
        cached: Cached | None = None,
    ) -> None:
        self._rows = rows
        self._score = score
        self._record = record
        self._forget = forget
        self._cached = cached
        self._kept = 0
        self._clean: Sequence[float] | None = None
        self._floor: float | None = None
        self._missing = "" if rows else "no token of this model can be scored"
        self._misses = 0
        self._seconds = 0.0
        self._looked = False

    async def clean(self) -> None:
        """Score the clean weights that a sync has just brought."""
        self._clean = await self._look()
        if self._floor is None and self._clean is not None and (again := await self._look()) is not None:
            self._floor = _distance(self._clean, again)

    async def pair(self, phase: str, step: int, sigma: float) -> None:
        """Score what is served now, and record it beside the clean weights of the last sync."""
        found = await self._look() if self._clean is not None else None
        delta = _distance(self._clean, found) if self._clean is not None and found is not None else None
        content = {
            "phase": phase,
            "step": step,
            "sigma": sigma,
            "delta": delta,
            "floor": self._floor,
            "tokens": 0 if found is None else len(found),
            "cached": self._kept,
            "seconds": round(self._seconds, 4),
            "missing": "" if delta is not None else self._missing or "no weight sync came before",
        }
        self._seconds, self._kept = 0.0, 0
        self._record("probe", content)

    async def _look(self) -> list[float] | None:
        """One score of every row, one row after the other; None where it cannot be had."""
        if not self._rows or self._misses >= _MOST_MISSES:
            return None
        limit = LIMIT_S if self._looked else FIRST_LIMIT_S
        self._looked = True
        begin = time.monotonic()
        until = begin + limit
        try:
            await self._ask_cache(until)
            found = [each for row in self._rows for each in await self._of(row, until)]
            if self._forget is not None:
                await asyncio.wait_for(self._forget(), _left(until))
        except Exception as problem:  # noqa: BLE001 - whatever it is, a training does not end because of a probe
            self._misses += 1
            self._missing = _words(problem, limit)
            return None
        finally:
            self._seconds += time.monotonic() - begin
        return found

    async def _ask_cache(self, until: float) -> None:
        """Count what the engine's cache kept of the probe before: it was computed with other weights."""
        if self._cached is not None:
            kept = await asyncio.wait_for(self._cached(self._rows[0]), _left(until))
            self._kept = max(self._kept, kept)

    async def _of(self, row: Row, until: float) -> list[float]:
        tokens, scores = await asyncio.wait_for(self._score(row), _left(until))
        if list(tokens) != list(row) or len(scores) != len(row) - 1:
            raise ValueError("the engine scored other tokens than it was asked")
        if time.monotonic() > until:
            raise TimeoutError
        if not all(map(math.isfinite, scores)):
            raise ValueError("the engine gave a score that is no number")
        return [float(score) for score in scores]


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the mean of the absolute differences."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


def _words(problem: Exception, limit: float) -> str:
    if isinstance(problem, TimeoutError):
        return f"no answer within {limit:g} s"
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
