"""Remember which block of a sweep was moved from one host to another, and how far a move has come."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS moves("
    " launch_id TEXT NOT NULL, seed INTEGER NOT NULL, number INTEGER NOT NULL, source TEXT NOT NULL,"
    " target TEXT NOT NULL, begun REAL NOT NULL, phase TEXT NOT NULL, PRIMARY KEY (launch_id, seed, number))"
)


class Phase(StrEnum):
    """asked: the source may have withdrawn the block, nobody heard. withdrawn: it has, and no host has the block.

    sent: it may have arrived at the target, nobody heard. done: it has arrived.
    """

    ASKED = "asked"
    WITHDRAWN = "withdrawn"
    SENT = "sent"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Move:
    """The `number`th move of a block, from 1. Hosts by their names; `begun` in seconds since 1970."""

    launch_id: str
    seed: int
    number: int
    source: str
    target: str
    begun: float
    phase: Phase

    @property
    def has_left(self) -> bool:
        """Tell whether the block belongs to the target, arrived or not."""
        return self.phase in (Phase.SENT, Phase.DONE)


def read(db: sqlite3.Connection, launch_id: str) -> tuple[Move, ...]:
    """The moves of a launch, oldest first."""
    rows = db.execute("SELECT * FROM moves WHERE launch_id = ? ORDER BY seed, number", (launch_id,))
    return tuple(map(_move, rows))


def read_open(db: sqlite3.Connection, run_ids: Iterable[str]) -> dict[str, Move]:
    """The moves that have come to no end, by the ids of the runs that are moved."""
    wanted = set(run_ids)
    rows = db.execute(
        "SELECT runs.run_id, moves.* FROM moves JOIN runs USING (launch_id, seed) WHERE phase != ?", (Phase.DONE,)
    )
    return {row[0]: _move(row[1:]) for row in rows if row[0] in wanted}


def _move(row: tuple[Any, ...]) -> Move:
    launch_id, seed, number, source, target, begun, phase = row
    return Move(launch_id, seed, number, source, target, begun, Phase(phase))


def write(db: sqlite3.Connection, move: Move) -> None:
    """Add the move, or note how far it has come."""
    values = (move.launch_id, move.seed, move.number, move.source, move.target, move.begun, move.phase)
    db.execute("INSERT OR REPLACE INTO moves VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def drop(db: sqlite3.Connection, move: Move) -> None:
    """Forget a move that did not happen."""
    key = (move.launch_id, move.seed, move.number)
    db.execute("DELETE FROM moves WHERE launch_id = ? AND seed = ? AND number = ?", key)
