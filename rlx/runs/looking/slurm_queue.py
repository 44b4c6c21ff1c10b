"""Ask Slurm who has the nodes of a partition, and who waits for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlx.hosts.host_errors import reading_answer
from rlx.plan import Place
from rlx.runs import supervisor
from rlx.runs.looking.fan_out import DEADLINE_S

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
    text = supervisor.call(place, "jobs", partition, timeout_s=DEADLINE_S)
    with reading_answer(place.host, "what Slurm says of its queue"):
        return tuple(parse_job(line) for line in text.splitlines())


def parse_job(line: str) -> QueuedJob:
    """Parse `number|state|user|nodes|devices|submitted|start|end|where|reason|comment|name`. Raises ValueError."""
    number, state, user, nodes, devices, submitted, start, end, where, reason, free = line.split("|", _FIELDS - 1)
    comment, _, name = free.partition("|")
    waits, begins, run = state == "PENDING", _epoch(start), _RUN.fullmatch(comment)
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
        since=began or _epoch(submitted) or 0.0,
        start=begins if waits else None,
        end=_epoch(end),
    )


def _epoch(text: str) -> float | None:
    """None for `N/A`, and a job without a limit."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
