"""Select runs by name, id or reference, and tag, hide, stop or fetch them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from rlx.errors import NoSuchRun, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.evidence import Evidence, JudgedRun
    from rlx.runs import Index, RunRef, Snapshot, Stopped
    from rlx.runs.copies.pull import Pulled
    from rlx.runs.index.hidden_runs import HiddenRun
    from rlx.runs.index.labels import RunLabel

Run: TypeAlias = Union["RunRef", str]
"""A run as `launch` and `find_runs` return it, or its name: an arm, a run name, a run id, a launch id."""
Runs: TypeAlias = Run | Iterable[Run]
Tell = Callable[[str], None]
"""Receives one line of progress at once."""
_OTHERS = "others launched it, and still see it"
WAIVERS_NAME = "waivers.json"
Progress = Callable[[int, int], None]
"""Takes the bytes that have come, and of how many."""


def open_index() -> Index:
    """Open the index of this user on this machine."""
    from rlx.runs import Index

    return Index(rlx_home())


def names_of(runs: Runs) -> list[str]:
    """Name each of these runs, or several joined by commas; a reference by its run id, which is unique for ever."""
    each = [runs] if isinstance(runs, str) or not isinstance(runs, Iterable) else runs
    return [name for run in each for name in (run.split(",") if isinstance(run, str) else [run.run_id])]


def host_names(hosts: str) -> list[str]:
    """Return the hosts that a text names, as in `a3,a4`, none twice."""
    return list(dict.fromkeys(name.strip() for name in hosts.split(",")))


def find_runs(runs: Runs | None = None) -> tuple[RunRef, ...]:
    """Find the runs that names mean, in that order, none twice; without names, those of the latest launch.

    A name is a run id, an arm (all its runs in the newest launch that has it), a run name such as `recipe-arm-s1`, a
    launch id, or the beginning of exactly one run id. Raises NoSuchRun with the candidates.
    """
    return runs_or_latest(open_index(), runs)


def runs_or_latest(index: Index, runs: Runs | None) -> tuple[RunRef, ...]:
    """Find these runs in an index that is open already; None means the latest launch. Raises NoSuchRun."""
    from rlx.runs import latest_launch, resolve

    if runs is None:
        return latest_launch(index)
    names = names_of(runs)
    return resolve(index, names) if names else ()


def where_they_are(index: Index, refs: Sequence[RunRef]) -> tuple[RunRef, ...]:
    """Return these runs as they are known now: one of a sweep may have been moved to another host."""
    known = {ref.run_id: ref for ref in index.known_runs()}
    return tuple(known.get(ref.run_id, ref) for ref in refs)


def one_run(index: Index, run: Run) -> RunRef:
    """Find the run that is meant. Raises NoSuchRun, or UsageError where a name means several."""
    found = runs_or_latest(index, run)
    if len(found) > 1:
        ids = ", ".join(ref.run_id for ref in found)
        raise UsageError(f"{names_of(run)[0]} means {len(found)} runs: {ids}", "name one of them")
    return found[0]


def arm_name(arm: Run | Sequence[Run]) -> str:
    """Name an arm as on the command line: several runs joined by commas are one arm."""
    return ",".join(names_of(arm))


def rlx_home() -> Path:
    """`$RLX_HOME`, else the XDG data folder. Raises RlxError for an account without a home directory."""
    home = os.environ.get("RLX_HOME") or f"{os.environ.get('XDG_DATA_HOME') or '~/.local/share'}/rlx"
    try:
        return Path(home).expanduser()
    except RuntimeError:
        raise RlxError(f"{home}: there is no such home directory", "set RLX_HOME to a folder of yours") from None


def unheard(text: str) -> None:
    """Ignore a line."""


def tag(
    runs: Runs, add: Iterable[str] = (), *, remove: Iterable[str] = (), note: str | None = None
) -> list[tuple[RunRef, RunLabel]]:
    """Add and remove tags of these runs and set their note, if it is not None; return what each has then.

    An empty note is removed; without anything to change the labels are only read. What belongs to a worker of a run of
    several nodes belongs to the run. Raises UsageError for what is no tag, NoSuchRun for an unknown name, RlxError if
    it cannot be kept.
    """
    from rlx.runs.index.labels import NO_LABEL, Labels, checked_note, checked_tag

    wanted, unwanted = [checked_tag(word) for word in add], [checked_tag(word) for word in remove]
    text = None if note is None else checked_note(note)
    index = open_index()
    refs = list({ref.head_id: ref for ref in runs_or_latest(index, runs)}.values())
    labels, ids = Labels(index.home), [ref.head_id for ref in refs]
    if wanted or unwanted or text is not None:
        labels.change(ids, add=wanted, remove=unwanted, note=text)
    known = labels.of(ids)
    return [(ref, known.get(ref.head_id, NO_LABEL)) for ref in refs]


@dataclass(frozen=True, slots=True)
class Removed:
    """A hidden run. `here_only`: why its host does not know of it, "" where it does."""

    ref: RunRef
    hidden: HiddenRun
    here_only: str = ""


def remove(runs: Runs, *, reason: str = "", force: bool = False) -> list[Removed]:
    """Hide these runs from names: no arm, run name or launch means them any more, only their ids.

    Their files stay, and every comparison of their experiment names them as removed. A run that others launched is
    hidden on this machine alone. `force`: also a run that may not have ended, because its host does
    not answer. Raises NoSuchRun for an unknown name, UsageError, before anything is hidden, for a run that has not
    ended.
    """
    from rlx.runs.index.labels import checked_note
    from rlx.runs.pruning import hidden_runs_of
    from rlx.runs.status.judged_snapshots import judged_snapshots

    text, index = checked_note(reason), open_index()
    heads = {ref.run_id: ref for ref in index.runs()}
    refs = list({ref.head_id: heads.get(ref.head_id, ref) for ref in runs_or_latest(index, runs)}.values())
    rows = judged_snapshots(index, refs)
    _check_ended(rows, force=force)
    hidden_runs = hidden_runs_of(index, rows, text)
    index.bury([*hidden_runs.values()], on_host=False)
    own = [row for row in rows if is_own(index, row.ref, row.submitted_by)]
    unknown = _tell_hosts(index, own, hidden_runs)
    others = {row.ref.run_id: _OTHERS for row in rows if row not in own}
    why = {**unknown, **others}
    return [Removed(row.ref, hidden_runs[row.ref.run_id], why.get(row.ref.run_id, "")) for row in rows]


def restore(runs: Runs) -> tuple[RunRef, ...]:
    """Make removed runs visible to names again: the inverse of `remove`. Return the runs.

    Raises NoSuchRun where no removed run is called so, RlxError where its files were deleted, or its host does not
    answer: it would be hidden again by the next query of that host.
    """
    from rlx.runs.index.resolve import meant_by, removed_runs
    from rlx.runs.pruning import unbury_on_hosts

    index = open_index()
    removed = removed_runs(index)
    if not removed:
        raise NoSuchRun("no run was removed", "rlx rm RUN removes one")
    refs = meant_by(names_of(runs), [*removed.values()], removed)
    hidden_runs = index.hidden_runs()
    if gone := [ref.run_id for ref in refs if hidden_runs[ref.run_id].deleted]:
        raise RlxError(f"{', '.join(gone)}: its files were deleted", "deleted files cannot be restored")
    hidden_there = [ref for ref in refs if ref.run_id in index.buried_on_hosts()]
    answer = unbury_on_hosts(hidden_there)
    back = [ref for ref in refs if ref not in hidden_there or ref.run_id in answer.done]
    index.restore([ref.run_id for ref in back])
    if failed := [f"{ref.run_id} stays removed: {answer.refused.get(ref.run_id)}" for ref in refs if ref not in back]:
        raise RlxError("\n".join(failed), "its host must confirm it: run the same command when it answers")
    return refs


def removal_notes(index: Index, refs: Iterable[RunRef]) -> Iterator[str]:
    """Yield a sentence for each of these runs that was removed."""
    hidden_runs = index.hidden_runs()
    yield from (found.sentence for ref in refs if (found := hidden_runs.get(ref.head_id)))


def is_own(index: Index, ref: RunRef, submitted_by: Mapping[str, str]) -> bool:
    """Tell whether this user launched it from this machine, or took its log in here."""
    from rlx.runs.manifest import submitter

    me = submitter()
    return (
        ref.place.is_local
        or ref.launch_id in index.own_launches()
        or all(submitted_by.get(key) == value for key, value in me.items())
    )


def _check_ended(rows: Sequence[Snapshot], *, force: bool) -> None:
    from rlx.model import RunState

    silent = [row for row in rows if row.state is RunState.UNREACHABLE]
    going = [row for row in rows if not row.state.is_terminal and row not in silent]
    if going:
        words = ", ".join(f"{row.ref.run_id} is {row.state.value}" for row in going)
        raise UsageError(f"nothing was removed: {words}", f"stop it first: rlx stop {going[0].ref.run_id}")
    if silent and not force:
        words = "; ".join(f"{row.ref.run_id}: {row.observation.detail}" for row in silent)
        raise UsageError(f"nothing was removed: {words}", "--force removes runs whose host does not answer")


def _tell_hosts(index: Index, rows: Sequence[Snapshot], hidden_runs: Mapping[str, HiddenRun]) -> dict[str, str]:
    """Keep the records of hidden runs on their hosts, too, for other machines. Return why that failed, by run."""
    from rlx.runs.pruning import bury_on_hosts

    refs = [row.ref for row in rows]
    answer = bury_on_hosts(refs, hidden_runs)
    index.bury([hidden_runs[run_id] for run_id in answer.done if run_id in hidden_runs], on_host=True)
    return {ref.run_id: answer.refused.get(ref.run_id, "no answer") for ref in refs if ref.run_id not in answer.done}


@dataclass(frozen=True, slots=True)
class StoppedRuns:
    """By run id: what was seen of each run `before`, what ended and what is left of those that were stopped, and why
    the others were not."""

    before: Mapping[str, Snapshot]
    stopped: Mapping[str, Stopped]
    failures: Mapping[str, RlxError]


def stop(runs: Runs, *, grace_s: float = 10.0) -> StoppedRuns:
    """Stop these runs, all hosts at once; of a run of several nodes, all nodes.

    There are `grace_s` seconds between SIGTERM and SIGKILL. A run that waits for devices never starts;
    one that has ended keeps its state, but what it left behind ends. One that fails keeps no other from stopping.
    Raises NoSuchRun for an unknown name, before anything is stopped.
    """

    index = open_index()
    return stop_refs(index, with_workers(index, runs), grace_s)


def stop_refs(index: Index, refs: Sequence[RunRef], grace_s: float, *, abandon_jobs: bool = False) -> StoppedRuns:
    """Stop exactly these. With `abandon_jobs`, jobs that Ray cannot be asked to stop hold nothing up."""
    from rlx.runs import stop_runs, take_snapshots

    before = take_snapshots(index, refs)
    result = stop_runs(refs, before, grace_s, abandon_jobs=abandon_jobs)
    return StoppedRuns(before, result.stopped, result.failures)


def with_workers(index: Index, runs: Runs) -> tuple[RunRef, ...]:
    """Find the runs that are named, and their parts on other nodes. Raises NoSuchRun."""
    from rlx.runs.run import one_a_job

    refs = runs_or_latest(index, runs)
    return tuple(one_a_job(dict.fromkeys((*refs, *index.workers(refs)))))


def not_ended(index: Index) -> list[RunRef]:
    """Find every run that has not ended and that rlx started: of an adopted one it knows the log, not the processes."""
    from rlx.runs import take_snapshots
    from rlx.runs.importing.log_source import is_adopted
    from rlx.runs.run import one_a_job

    refs = index.nodes()
    seen = take_snapshots(index, refs)
    return one_a_job([ref for ref in refs if not seen[ref.run_id].state.is_terminal and not is_adopted(ref)])


def _unwatched(done: int, total: int) -> None:
    pass


def pull(
    runs: Runs, to: str | Path = ".", *, checkpoints: bool = False, progress: Progress = _unwatched
) -> dict[str, list[Pulled]]:
    """Fetch log, metrics, noise events and validation outputs of runs into `to`/RUN_ID, with `checkpoints` those, too.

    Returns the files of each run by its id, with path, outcome and bytes; each was verified by its SHA-256 on the host.
    Existing files are kept: the same call continues where it was interrupted. Raises NoSuchRun, HostError where the
    connection breaks, RlxError where nothing can be written here.
    """
    from rlx.runs.copies.pull import pull as pull_run
    from rlx.runs.index.kept_waivers import waivers_file

    index = open_index()
    refs = runs_or_latest(index, runs)
    found = {
        ref.run_id: pull_run(ref, Path(to) / ref.run_id, checkpoints=checkpoints, narrate=progress) for ref in refs
    }
    for ref in refs:
        _take_waivers(waivers_file(index.home, ref.run_id), Path(to) / ref.run_id / WAIVERS_NAME)
    return found


def _take_waivers(source: Path, target: Path) -> None:
    """Put what was accepted of a run on this machine beside what its host has of it."""
    if source.is_file():
        try:
            target.write_bytes(source.read_bytes())
        except OSError as error:
            raise RlxError(
                f"{target}: {error.strerror}", "make room there, or choose another folder with --to"
            ) from None


def judge(run: Run) -> JudgedRun:
    """Check what a run logged against the expectations of its plan; `.verdict` has status, sentence and findings.

    All that its host knows of it is fetched first. Raises NoSuchRun for an unknown run, UsageError where a name means
    several, HostError where the host cannot be asked and the run's end is not here.
    """
    from rlx.runs.judging.judge_runs import judge_runs

    index = open_index()
    (judged,) = judge_runs(index, [one_run(index, run)])
    return judged


def read_log(path: str | Path, *, finished: bool = True) -> Evidence:
    """Read a console log that no run of rlx need know: metrics by step, noise, restarts, and the totals it names.

    `finished`: nothing writes to the file any more, so a last line without a line end counts. Raises RlxError where
    the file cannot be read.
    """
    from rlx.evidence import read_log as read

    return read(Path(path), finished=finished)
