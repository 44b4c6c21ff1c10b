"""Numbers: as rules reckon with them, and as a fix names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isqrt

_MOST_NAMED = 6
_MOST_TRIED = 10_000


def divisors(number: int) -> list[int]:
    """List those of a number of at least 1, in ascending order; of a huge one not all."""
    small = [candidate for candidate in range(1, min(isqrt(number), _MOST_TRIED) + 1) if number % candidate == 0]
    return sorted({*small, *(number // candidate for candidate in small)})


def near(candidates: Iterable[int], wanted: int) -> list[int]:
    """The candidates nearest to the number that somebody wanted, in ascending order."""
    return sorted(sorted(candidates, key=lambda candidate: (abs(candidate - wanted), candidate))[:_MOST_NAMED])


def one_of(numbers: Sequence[int]) -> str:
    """`4, 5, 10 or 20`."""
    *most, last = [str(number) for number in numbers]
    return f"{', '.join(most)} or {last}" if most else last


def product(*factors: int | None) -> int | None:
    """Multiply; None if one of them is not known, or no count."""
    result = 1
    for factor in factors:
        if factor is None or factor < 1:
            return None
        result *= factor
    return result
