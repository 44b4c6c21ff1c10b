"""States and files of runs in one command a place: a channel and its shells cost more than either answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from rlx.errors import RlxError
from rlx.hosts import transport_for
from rlx.hosts.script_parts import run_part, run_parts
from rlx.plan import Place
from rlx.runs.copies.copying import copy_on, end_of_patience, request, take
from rlx.runs.copies.mirror import Copies, folder_of, mirrored
from rlx.runs.looking.fan_out import DEADLINE_S, Asked, ask
from rlx.runs.looking.observe import own_runs
from rlx.runs.looking.state import Facts
from rlx.runs.looking.state_report import Looked, facts_of, report_part

if TYPE_CHECKING:
    from pathlib import Path

    from rlx.runs.index.run_index import Index
    from rlx.runs.run import RunRef

T = TypeVar("T")
_Facts = dict[str, Facts] | RlxError
_Both = tuple[Place, _Facts, Copies | RlxError]


def look_and_copy(index: Index, refs: Sequence[RunRef]) -> tuple[Looked, Asked[Copies]]:
    """Ask the places of these runs for their states, and bring the copies of their files up to date.

    Either may fail where the other does not. The states come first: what had ended by then has its end in the copy.
    """
    home = folder_of(index)
    asked = ask(own_runs(refs), lambda place, root, ids: _both(home, place, root, ids))
    facts = [(place, found) for place, found, _ in asked.answers]
    copies = [(place, found) for place, _, found in asked.answers]
    return _sorted(facts, asked), _sorted(copies, asked)


def _both(home: Path, place: Place, root: str, ids: Sequence[str]) -> _Both:
    report = report_part(root, ids)
    if place.is_local:
        return place, facts_of(place, run_part(transport_for(place), report, DEADLINE_S)), {}
    began, until = time.time(), end_of_patience()
    asked = request(home, root, ids, DEADLINE_S)
    looked, copied = run_parts(transport_for(place), [report, asked.part], DEADLINE_S)

    def copies() -> Copies:
        return mirrored(home, copy_on(home, place, root, take(home, place, ids, asked, copied, began), until))

    return place, _tried(lambda: facts_of(place, looked)), _tried(copies)


def _tried(call: Callable[[], T]) -> T | RlxError:
    try:
        return call()
    except RlxError as problem:
        return problem


def _sorted(found: Sequence[tuple[Place, T | RlxError]], asked: Asked[_Both]) -> Asked[T]:
    failures = {place: problem for place, problem in found if isinstance(problem, RlxError)}
    answers = [answer for _, answer in found if not isinstance(answer, RlxError)]
    return Asked(answers, {**asked.failures, **failures})
