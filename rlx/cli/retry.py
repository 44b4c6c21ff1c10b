"""rlx retry: retry a run that failed, was stopped or was lost."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import FollowOption, NamedRunsArgument, SecretFileOption
from rlx.cli.frame.output import narrate, patience, print_json
from rlx.cli.frame.run_progress import follow_runs
from rlx.cli.frame.secret_values import secret_values
from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.api.retrying import Retried
    from rlx.runs import Index, RunRef, Snapshot


def retry(
    names: NamedRunsArgument,
    from_checkpoint: Annotated[
        bool, typer.Option("--from-checkpoint", help="Continue from the last complete checkpoint. Default: begin anew.")
    ] = False,
    secret_file: SecretFileOption = None,
    follow: FollowOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask if a name means several runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of run ids.")] = False,
) -> None:
    """Retry a run that failed, was stopped or was lost.

    It queues for its devices again, with the files that were launched. If it begins anew, nothing of the earlier
    attempts counts; with --from-checkpoint their steps up to that checkpoint do. Repeated while an attempt is under
    way, it starts no other. Prints the run ids.
    """
    from rlx.api.retrying import new_snapshots, secrets_of
    from rlx.api.runs import open_index, runs_or_latest

    index = open_index()
    refs = runs_or_latest(index, names)
    _ask_about_several(refs, yes)
    with patience(f"asking {', '.join(dict.fromkeys(ref.host for ref in refs))} …"):
        sights = new_snapshots(index, refs)
    secrets = secret_values(secret_file, secrets_of(sights))
    done, failures = _begin_all(index, sights, from_checkpoint, secrets)
    _tell(done, as_json and not failures)
    if failures:
        raise _joined(failures)
    if follow:
        follow_runs([one.ref for one in done])


def _ask_about_several(refs: Sequence[RunRef], yes: bool) -> None:
    """Ask if a name means several runs. Raise UsageError if there is no terminal."""
    if len(refs) < 2 or yes:
        return
    ids = ", ".join(ref.run_id for ref in refs)
    if not sys.stdin.isatty():
        raise UsageError(f"this would retry {len(refs)} runs: {ids}", "-y does; or name one of them")
    typer.confirm(f"Retry {ids}?", abort=True, err=True)


def _begin_all(
    index: Index, sights: Sequence[Snapshot], from_checkpoint: bool, secrets: Mapping[str, str]
) -> tuple[list[Retried], list[RlxError]]:
    """Retry each run; return those begun and the errors of the others."""
    from rlx.api.retrying import retry_one

    done: list[Retried] = []
    failures: list[RlxError] = []
    for sight in sights:
        try:
            done.append(retry_one(index, sight, from_checkpoint, secrets))
        except RlxError as error:
            failures.append(error)
    return done, failures


def _tell(done: Sequence[Retried], as_json: bool) -> None:
    from rlx.api.retrying import attempt_lines

    for one in done:
        for line in attempt_lines(one):
            narrate(line)
    if as_json:
        print_json({"runs": [retried_document(one) for one in done]})
        return
    for one in done:
        print(one.ref.run_id)


def _joined(failures: Sequence[RlxError]) -> RlxError:
    """Return one error for all runs that could not be retried, with the exit code of the worst."""
    worst = max(failures, key=lambda failure: failure.exit_code)
    return RlxError("\n".join(failure.message for failure in failures), worst.hint, worst.exit_code)


def retried_document(one: Retried) -> dict[str, Any]:
    lineage = one.lineage
    return {
        "run_id": one.ref.run_id,
        "attempt": one.attempt,
        "begun": one.is_new,
        "step": lineage.step if lineage else None,
        "checkpoint": lineage.checkpoint or None if lineage else None,
        "passed_over": list(lineage.passed_over) if lineage else [],
    }
