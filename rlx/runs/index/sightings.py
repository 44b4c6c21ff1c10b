"""Keep what was last seen of a run on another machine, for the time when that machine does not answer. A cache."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rlx.errors import UsageError
from rlx.model import RunState, from_jsonable, to_jsonable
from rlx.runs.looking.observation import Observation

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sightings("
    " run_id TEXT PRIMARY KEY, state TEXT NOT NULL, observation TEXT NOT NULL, seen REAL, silent_since REAL)"
)

_ENDS = (RunState.FINISHED, RunState.FAILED, RunState.STOPPED)
"""States with a recorded end. Not lost: a run that never started may be started after all."""

_REMEMBER_S = 10.0
"""The same state is written again only after this long: watching must not wear out the disk."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """`seen` is None for a run that was never seen; epochs are by the clock of this machine.

    `silent_since` is when the host failed to answer for the first time since then; None while it answers.
    """

    observation: Observation
    seen: float | None
    silent_since: float | None


def read(db: sqlite3.Connection, run_ids: Iterable[str]) -> dict[str, Sighting]:
    wanted = set(run_ids)
    rows = db.execute("SELECT run_id, observation, seen, silent_since FROM sightings")
    return {row[0]: sighting for row in rows if row[0] in wanted and (sighting := _parse(*row[1:]))}


def _parse(text: str, seen: float | None, silent_since: float | None) -> Sighting | None:
    """Parse it; None for what another version of rlx wrote."""
    try:
        return Sighting(from_jsonable(Observation, json.loads(text)), seen, silent_since)
    except (ValueError, UsageError):
        return None


def note(db: sqlite3.Connection, seen: Sequence[Observation], now: float) -> None:
    """Keep what is new in these observations."""
    known = read(db, [found.run_id for found in seen])
    news = [(found.run_id, sighting) for found in seen if (sighting := _news(found, known.get(found.run_id), now))]
    if news:
        db.executemany("REPLACE INTO sightings VALUES (?, ?, ?, ?, ?)", [_row(*item) for item in news])


def _news(found: Observation, before: Sighting | None, now: float) -> Sighting | None:
    if found.state is RunState.UNREACHABLE:
        return _silence(found, before, found.unreachable_since or now)
    return Sighting(found, now, None) if before is None or _is_new(found, before, now) else None


def _silence(found: Observation, before: Sighting | None, since: float) -> Sighting | None:
    if before is None:
        return Sighting(found, None, since)
    return replace(before, silent_since=since) if before.silent_since is None else None


def _is_new(found: Observation, before: Sighting, now: float) -> bool:
    if found.state is not before.observation.state or before.seen is None or before.silent_since is not None:
        return True
    return now - before.seen > _REMEMBER_S and not (found.state.is_terminal and found == before.observation)


def _row(run_id: str, sighting: Sighting) -> Sequence[str | float | None]:
    text = json.dumps(to_jsonable(sighting.observation))
    return (run_id, sighting.observation.state, text, sighting.seen, sighting.silent_since)


def ended(db: sqlite3.Connection) -> frozenset[str]:
    """The runs that are known to have ended; asking their hosts again could only confirm it."""
    marks = ", ".join("?" * len(_ENDS))
    return frozenset(row[0] for row in db.execute(f"SELECT run_id FROM sightings WHERE state IN ({marks})", _ENDS))
