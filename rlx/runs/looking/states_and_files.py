"""States and files of runs in one command a place: a channel and its shells cost more than either answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from rlx.errors import RlxError
from rlx.hosts import transport_for
from rlx.hosts.script_parts import run_part, run_parts
from rlx.model import Place
from rlx.runs.copies.copying import copy_on, limits, request, take
from rlx.runs.copies.mirror import WHOLE_DEADLINE_S, Copies, folder_of, mirrored
from rlx.runs.looking.fan_out import DEADLINE_S, Asked, ask
from rlx.runs.looking.state import Facts
from rlx.runs.looking.state_report import Reports, facts_of, report_part

if TYPE_CHECKING:
    from pathlib import Path

    from rlx.runs.index.run_index import Index
    from rlx.runs.run import RunRef

T = TypeVar("T")
_Facts = dict[str, Facts] | RlxError
_Both = tuple[Place, _Facts, Copies | RlxError]


def request_states_and_files(index: Index, refs: Sequence[RunRef], *, whole: bool) -> tuple[Reports, Asked[Copies]]:
    """Ask the places of these runs for their states, and for what is new in their files; `whole`: for all of it.

    Either may fail where the other does not. The states come first: what had ended by then has its end in the copy.
    """
    home = folder_of(index)
    deadline_s = WHOLE_DEADLINE_S if whole else DEADLINE_S
    asked = ask(refs, lambda place, root, ids: _both(home, place, root, ids, refs, whole), deadline_s)
    facts = [(place, found) for place, found, _ in asked.answers]
    copies = [(place, found) for place, _, found in asked.answers]
    return _sorted(facts, asked), _sorted(copies, asked)


def _both(home: Path, place: Place, root: str, ids: Sequence[str], refs: Sequence[RunRef], whole: bool) -> _Both:
    report = report_part(root, ids, refs)
    if place.is_local:
        return place, facts_of(place, root, run_part(transport_for(place), report, DEADLINE_S), time.time()), {}
    began, (until, timeout_s) = time.time(), limits(whole=whole)
    asked = request(home, root, ids, timeout_s)
    reported, copied = run_parts(transport_for(place), [report, asked.part], timeout_s)

    def copies() -> Copies:
        cursors = take(home, place, ids, asked, copied, began)
        return mirrored(home, copy_on(home, place, root, cursors, until, whole=whole))

    return place, _tried(lambda: facts_of(place, root, reported, began)), _tried(copies)


def _tried(call: Callable[[], T]) -> T | RlxError:
    try:
        return call()
    except RlxError as problem:
        return problem


def _sorted(found: Sequence[tuple[Place, T | RlxError]], asked: Asked[_Both]) -> Asked[T]:
    failures = {place: problem for place, problem in found if isinstance(problem, RlxError)}
    answers = [answer for _, answer in found if not isinstance(answer, RlxError)]
    return Asked(answers, {**asked.failures, **failures})
