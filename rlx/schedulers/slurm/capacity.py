"""Ask Slurm who has the nodes of a partition, and who waits for them."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from rlx.plan import Place
from rlx.runs import supervisor
from rlx.runs.looking.fan_out import DEADLINE_S
from rlx.schedulers.slurm.job import epoch

_RUN = re.compile(r"rlx:([A-Za-z0-9][A-Za-z0-9._-]*)(?:@\d+)?")
_GRES = re.compile(r"(?<![A-Za-z0-9_])gres[:/]")
_FIELDS = 11


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of anybody's, as Slurm tells it; times in seconds since 1970.

    `run_id`: of the run that its comment names, None for a job that rlx did not submit; `name` is what its owner calls
    it. It has, or waits for, `nodes` nodes with `devices` each (`npu:4`; empty: none), at `where`. `reason`: why it
    waits. `since`: when it began, or was submitted. `start` is Slurm's guess of a job that waits, `end` is when its
    time limit ends it; None where Slurm does not say.
    """

    number: str
    run_id: str | None
    name: str
    user: str
    nodes: int
    devices: str
    where: str
    waits: bool
    reason: str
    since: float
    start: float | None
    end: float | None


def look_at_jobs(place: Place, partition: str) -> tuple[QueuedJob, ...]:
    """All jobs of the partition that have not ended, those of the highest priority first.

    One round trip; a site may show nobody the jobs of others. Raises RlxError where Slurm does not answer.
    """
    return parse_jobs(supervisor.call(place, "jobs", partition, timeout_s=DEADLINE_S))


def parse_jobs(text: str) -> tuple[QueuedJob, ...]:
    """Parse a line a job. Anybody may give a job a name with a line end in it: what is no line of a job is left out."""
    jobs = []
    for line in text.split("\n"):
        with suppress(ValueError):
            jobs.append(parse_job(line))
    return tuple(jobs)


def parse_job(line: str) -> QueuedJob:
    """Parse `number|state|user|nodes|devices|submitted|start|end|where|reason|comment|name`. Raises ValueError."""
    number, state, user, nodes, devices, submitted, start, end, where, reason, free = line.split("|", _FIELDS - 1)
    comment, _, name = free.partition("|")
    waits, begins, run = state == "PENDING", epoch(start), _RUN.fullmatch(comment)
    began = None if waits else begins
    return QueuedJob(
        number=number,
        run_id=run[1] if run else None,
        name=name,
        user=user,
        nodes=int(nodes),
        devices="" if devices == "N/A" else _GRES.sub("", devices),
        where=where,
        waits=waits,
        reason=reason,
        since=began or epoch(submitted) or 0.0,
        start=begins if waits else None,
        end=epoch(end),
    )
