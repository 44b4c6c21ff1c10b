"""Devices in words: which ones a run has, and which it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.runs.looking.host_queue import Waiter
    from rlx.runs.looking.leases import Ticket


def wish_words(waiter: Waiter | Ticket) -> str:
    """`npu 0-3`, `any 4 npu`, and `npu` of a run that does not say which."""
    if waiter.count is None or waiter.could is None:
        return waiter.kind
    if waiter.count == len(waiter.could):
        return f"{waiter.kind} {ranges(waiter.could)}"
    return f"any {waiter.count} {waiter.kind}"


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,7`."""
    runs = [
        [number for _, number in group]
        for _, group in groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])
    ]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
