"""Show the jobs of a batch scheduler as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlx.cli.text.queue_table import queue_table, short_names
from rlx.runs.duration import clock_time, duration

if TYPE_CHECKING:
    from rlx.schedulers.protocol import QueuedJob

# A partition may have thousands.
_MOST_OTHERS = 20


def job_parts(jobs: Sequence[QueuedJob], width: int, now: float) -> list[Any]:
    """Two tables, at most `width` cells wide: who has nodes, and who waits. Of jobs that are no runs the first few."""
    from rich.text import Text

    from rlx.cli.text.table_text import fitted

    names = short_names([job.run_id for job in jobs if job.run_id])
    having, waiting = [job for job in jobs if not job.waits], [job for job in jobs if job.waits]
    parts: list[Any] = []
    for heads, listed, tell in ((_HAVING, having, _held), (_WAITING, waiting, _wanted)):
        shown = _shown(listed)
        if shown:
            parts.append(fitted(queue_table(heads, [tell(job, names, now) for job in shown]), width))
        if more := len(listed) - len(shown):
            parts.append(Text(f"and {more} more jobs that are no runs of rlx"))
    return parts or [Text("no job runs here or waits")]


_HAVING = ("JOB", "HAS", "RUN", "OWNER", "FOR", "ENDS", "WHERE")
_WAITING = ("JOB", "WAITS FOR", "RUN", "OWNER", "FOR", "STARTS", "WHY")


def _shown(jobs: Sequence[QueuedJob]) -> list[QueuedJob]:
    """All runs, and the first others, in their order."""
    others = [job for job in jobs if job.run_id is None][:_MOST_OTHERS]
    return [job for job in jobs if job.run_id is not None or job in others]


def _held(job: QueuedJob, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    end = f"at the latest {clock_time(job.end)}" if job.end is not None else "unknown"
    return (*_job(job, names, now), end, job.where)


def _wanted(job: QueuedJob, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    start = f"about {clock_time(job.start)}" if job.start is not None else "unknown"
    return (*_job(job, names, now), start, job.reason)


def _job(job: QueuedJob, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    name = names[job.run_id] if job.run_id else f"({job.name})"
    return job.number, _devices(job), name, job.user, duration(max(0.0, now - job.since))


def _devices(job: QueuedJob) -> str:
    if job.nodes == 1:
        return job.devices or "1 node"
    return f"{job.nodes} nodes, {job.devices} each" if job.devices else f"{job.nodes} nodes"
