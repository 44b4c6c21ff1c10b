"""Ask a Ray cluster what it has, and who uses it or waits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlx.errors import RlxError
from rlx.model import Place, Site
from rlx.runs import supervisor
from rlx.runs.queries import DEADLINE_S
from rlx.schedulers.protocol import JobQueue, QueuedJob, Resource
from rlx.schedulers.ray.settings import NAME, ray_of

# What every node has, or what stands for the node itself.
_NOT_SHOWN = ("memory", "objectStoreMemory", "object_store_memory")


def capacity(place: Place, site: Site) -> JobQueue:
    """Return what the cluster has, and its jobs that have not ended, the oldest first. Raises RlxError."""
    return parse_jobs(
        supervisor.call(place, "jobs", NAME, ray_of(site).address, timeout_s=DEADLINE_S, scheduler=NAME), place.host
    )


def parse_jobs(text: str, host: str) -> JobQueue:
    """Parse what `ray_api.py jobs` prints: what is used, and a line a job. Raises RlxError for anything else."""
    try:
        first, *others = [json.loads(line) for line in text.splitlines()]
        resources = tuple(
            Resource(name, float(used), float(total))
            for name, (used, total) in sorted(first["usage"].items())
            if name not in _NOT_SHOWN and ":" not in name
        )
        jobs = sorted(map(_job, others), key=lambda job: (job.waits, job.since))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise RlxError(f"{host}: Ray answered what rlx does not know: {text[:200]}") from problem
    return JobQueue(tuple(jobs), resources)


def _job(found: Mapping[str, Any]) -> QueuedJob:
    metadata = found["metadata"] or {}
    number = found["submission_id"] or found["job_id"] or "?"
    reserves, awaits = metadata.get("rlx_reserves", ""), metadata.get("rlx_awaits", "")
    name, _, count = (reserves or awaits).partition(" ")
    waits = found["status"] == "PENDING"
    return QueuedJob(
        number=number,
        run_id=metadata.get("rlx_id"),
        name=metadata.get("job_name") or found["entrypoint"] or number,
        user=metadata.get("rlx_user", ""),
        nodes=1,
        devices=f"{name}:{count}" if count else "no devices" if "rlx_id" in metadata else "unknown",
        where=found["node"],
        waits=waits,
        reason=f"{count} {name} are not free" if waits and count else "",
        since=(found["start_time"] or 0) / 1000,
        start=None,
        end=None,
    )
