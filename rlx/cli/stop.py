"""rlx stop: stop runs, and check that no process is left."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import RUNS
from rlx.cli.frame.output import narrate, print_text
from rlx.errors import ExitCode, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.runs import RunRef, Snapshot, Stopped


def stop(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="RUN...", help="Arm, run name or id.", autocompletion=RUNS)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every run that has not ended.")] = False,
    grace: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Time between SIGTERM and SIGKILL.")] = 10.0,
    abandon_jobs: Annotated[
        bool, typer.Option("--abandon-jobs", help="Release the devices though a job in Ray cannot be stopped.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether --all is meant.")] = False,
) -> None:
    """Stop runs, and check that no process is left.

    A run that waits never starts; one that has ended keeps its state, but processes that it left behind are ended. Jobs
    that a script has submitted to Ray are stopped, too. Exit code 1 if a process or a job is still there afterwards.
    """
    from rlx.api.runs import not_ended, open_index, stop_refs, with_workers
    from rlx.runs.importing.log_source import is_adopted

    if bool(names) == everything:
        raise UsageError("stop what?", "name runs (rlx status shows them), or add --all")
    index = open_index()
    refs = with_workers(index, names) if names else not_ended(index)
    if not refs:
        narrate("no run to stop")
        return
    if everything and not yes:
        _confirm(refs)
    if own := [ref for ref in refs if not is_adopted(ref)]:
        narrate(f"stopping {len(own)} run{'s' * (len(own) != 1)}; SIGKILL after {grace:g} s")
    result = stop_refs(index, refs, grace, abandon_jobs=abandon_jobs)
    for run_id, stopped in result.stopped.items():
        print_text(f"{run_id}  {_outcome(result.before[run_id], stopped, abandon_jobs)}")
    if result.failures:
        raise _not_stopped(result.failures)
    if any(stopped.is_left for stopped in result.stopped.values()):
        raise typer.Exit(ExitCode.ERROR)


def _not_stopped(failures: Mapping[str, RlxError]) -> RlxError:
    """Return one error for all runs that could not be stopped, with each reason once."""
    reasons: dict[str, list[str]] = {}
    for run_id, failure in failures.items():
        reasons.setdefault(failure.message, []).append(run_id)
    worst = max(failures.values(), key=lambda failure: failure.exit_code)
    lines = [f"NOT stopped: {', '.join(ids)}: {reason}" for reason, ids in reasons.items()]
    return RlxError("\n".join(lines), worst.hint or "repeat the same command", worst.exit_code)


def _confirm(refs: Sequence[RunRef]) -> None:
    if not sys.stdin.isatty():
        raise RlxError(f"--all would stop {len(refs)} runs", "-y stops them")
    typer.confirm(f"Stop {', '.join(ref.run_id for ref in refs)}?", abort=True, err=True)


def _outcome(before: Snapshot, result: Stopped, jobs_abandoned: bool) -> str:
    goes_on = result.ray_left and not jobs_abandoned
    was = f"had {before.state}" if before.state.is_terminal else "NOT stopped" if goes_on else "stopped"
    if result.job:
        return f"{was}; {result.job} is over"
    ended = f"{len(result.ended)} process{'es' * (len(result.ended) != 1)} ended"
    left = f"STILL THERE: {_numbers(result.left)}" if result.left else "no processes left"
    return (
        f"{was}; {_ray(result, jobs_abandoned)}{ended}, {left}{_strays(result.strays)}{_zombies(len(result.zombies))}"
    )


def _ray(result: Stopped, jobs_abandoned: bool) -> str:
    ended = f"Ray job {', '.join(result.ray_jobs)} ended; " if result.ray_jobs else ""
    devices = "its devices are released" if jobs_abandoned else "it keeps its devices (or: --abandon-jobs)"
    return ended + (f"STILL THERE: Ray job {', '.join(result.ray_left)}, and {devices}; " if result.ray_left else "")


def _strays(pids: tuple[int, ...]) -> str:
    return f"; OUTSIDE THE RUN, but writing to its files: {_numbers(pids)}; rlx does not end them" if pids else ""


def _numbers(pids: tuple[int, ...]) -> str:
    return " ".join(map(str, pids))


def _zombies(count: int) -> str:
    if not count:
        return ""
    return (
        f"; zombies that its container keeps until it restarts: {count}, since its first process does not collect them"
    )
