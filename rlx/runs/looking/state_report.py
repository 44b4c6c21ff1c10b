"""Ask places what `supervise.sh report` tells of their runs, in one round trip."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from rlx.errors import RlxError
from rlx.hosts import Completed, transport_for
from rlx.hosts.clock import compare_clocks
from rlx.hosts.host_errors import reading_answer
from rlx.hosts.script_parts import ScriptPart, run_part
from rlx.model import Place
from rlx.runs import supervisor
from rlx.runs.looking.fan_out import DEADLINE_S, Asked, ask
from rlx.runs.looking.state import Facts, parse_report
from rlx.runs.run import RunRef
from rlx.schedulers.registry import PACKAGES

_MOST_IDS_A_CALL = 500

Reports = Asked[dict[str, Facts]]
"""The facts by run id, one answer a root."""


def request_reports(refs: Iterable[RunRef], deadline_s: float = DEADLINE_S) -> Reports:
    """Ask for the facts of those runs that exist on their hosts, one answer a root."""

    refs = list(refs)

    def report(place: Place, root: str, ids: Sequence[str]) -> dict[str, Facts]:
        before = time.time()
        return facts_of(place, root, run_part(transport_for(place), report_part(root, ids, refs), deadline_s), before)

    return ask(refs, report, deadline_s)


def report_part(root: str, ids: Sequence[str], refs: Sequence[RunRef]) -> ScriptPart:
    """Ask about the runs of these ids. Of `refs` are their containers: no other one is entered."""
    asked = set(ids)
    containers = [f"{ref.run_id}={ref.container}" for ref in refs if ref.container and ref.run_id in asked]
    # Beyond this, naming them costs more than hearing about all.
    return supervisor.part("report", root, *(ids if len(ids) <= _MOST_IDS_A_CALL else []), "--", *containers)


def facts_of(place: Place, root: str, completed: Completed, before: float) -> dict[str, Facts]:
    """Parse what a `report_part` has just answered, asked at `before`. Raises RlxError for what is no report."""
    after, text = time.time(), supervisor.answer(place, "report", completed)
    text += _of_plug_ins(place, root, text)
    with reading_answer(place.host, "rlx status"):
        found = parse_report(text)
    if place.is_local:
        return found
    return {run_id: replace(facts, clock=compare_clocks([facts.now], before, after)) for run_id, facts in found.items()}


def _of_plug_ins(place: Place, root: str, text: str) -> str:
    """What schedulers of other distributions say of the jobs that a report could not ask about, one question each."""
    more = ""
    for kind, name, *jobs in (words for line in text.splitlines() if len(words := line.split()) > 1):
        if kind == "unknown" and name not in PACKAGES:
            ids = [job.partition("=")[0] for job in jobs]
            # Where that fails, its runs say so, and the others of the place do not.
            with suppress(RlxError):
                more += supervisor.call(place, "facts", root, *ids, timeout_s=DEADLINE_S, scheduler=name)
    return more
