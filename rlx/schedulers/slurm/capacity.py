"""Ask Slurm who has the nodes of a partition, and who waits for them."""

from __future__ import annotations

import re
from contextlib import suppress

from rlx.model import Place, Site
from rlx.runs import supervisor
from rlx.runs.queries import DEADLINE_S
from rlx.schedulers.protocol import QueuedJob
from rlx.schedulers.slurm.job_facts import epoch
from rlx.schedulers.slurm.settings import NAME, slurm_of

_RUN = re.compile(r"rlx:([A-Za-z0-9][A-Za-z0-9._-]*)(?:@\d+)?")
_GRES = re.compile(r"(?<![A-Za-z0-9_])gres[:/]")
_FIELDS = 11


def capacity(place: Place, site: Site) -> tuple[QueuedJob, ...]:
    """Return all jobs of the partition that have not ended, those of the highest priority first.

    One round trip; a site may hide the jobs of others. Raises RlxError where Slurm does not answer.
    """
    return parse_jobs(
        supervisor.call(place, "jobs", NAME, slurm_of(site).partition, timeout_s=DEADLINE_S, scheduler=NAME)
    )


def parse_jobs(text: str) -> tuple[QueuedJob, ...]:
    """Parse one line per job. A name may contain a line end, so lines that do not describe a job are ignored."""
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
