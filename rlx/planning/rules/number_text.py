"""Compute with whole numbers, and write them in a fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isqrt

_MOST_NAMED = 6
_MOST_TRIED = 10_000


def divisors(number: int) -> list[int]:
    """List the divisors of a number of at least 1 in ascending order; for a huge number not all."""
    small = [candidate for candidate in range(1, min(isqrt(number), _MOST_TRIED) + 1) if number % candidate == 0]
    return sorted({*small, *(number // candidate for candidate in small)})


def near(candidates: Iterable[int], wanted: int) -> list[int]:
    """Return the candidates nearest to the number in the recipe, in ascending order."""
    return sorted(sorted(candidates, key=lambda candidate: (abs(candidate - wanted), candidate))[:_MOST_NAMED])


def one_of(numbers: Sequence[int]) -> str:
    """Write `4, 5, 10 or 20`."""
    *most, last = [str(number) for number in numbers]
    return f"{', '.join(most)} or {last}" if most else last


def product(*factors: int | None) -> int | None:
    """Multiply; None if a factor is unknown or not a count."""
    result = 1
    for factor in factors:
        if factor is None or factor < 1:
            return None
        result *= factor
    return result
