"""List the jobs that live."""

from __future__ import annotations

from rlx.model import Place, Site
from rlx.runs import supervisor
from rlx.schedulers.protocol import QueuedJob


def capacity(place: Place, site: Site) -> tuple[QueuedJob, ...]:
    text = supervisor.call(place, "jobs", "at_once", site.root, scheduler="at_once")
    found = [line.split() for line in text.splitlines()]
    return tuple(
        QueuedJob(number, run_id, run_id, "me", 1, "", "here", waits=False, reason="", since=0.0, start=None, end=None)
        for number, run_id in found
    )
