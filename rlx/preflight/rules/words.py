"""Numbers as a fix names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST_NAMED = 6


def divisors(number: int) -> list[int]:
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]


def near(candidates: Iterable[int], wanted: int) -> list[int]:
    """The candidates nearest to the number that somebody wanted, in ascending order."""
    return sorted(sorted(candidates, key=lambda candidate: (abs(candidate - wanted), candidate))[:_MOST_NAMED])


def one_of(numbers: Sequence[int]) -> str:
    """`4, 5, 10 or 20`."""
    *most, last = [str(number) for number in numbers]
    return f"{', '.join(most)} or {last}" if most else last
