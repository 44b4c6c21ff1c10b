"""Hide runs, and delete them or their checkpoints on their hosts, all hosts at once (prune.sh)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rlx.evidence.verdict import outlook
from rlx.hosts import transport_for
from rlx.hosts.host_errors import reading_answer
from rlx.hosts.script_parts import ScriptPart, run_parts
from rlx.model import Place
from rlx.runs import supervisor
from rlx.runs.copies.mirror import kept
from rlx.runs.importing.log_source import is_adopted
from rlx.runs.index.hidden_runs import HiddenRun, hidden_run_text
from rlx.runs.manifest import manifest_digest, manifest_text, parse_manifest, submitter
from rlx.runs.queries import query_places
from rlx.runs.run import RunRef

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index
    from rlx.runs.status.snapshots import Snapshot

_BURY_S, _MEASURE_S, _DELETE_S = 30.0, 600.0, 6 * 3600.0
"""Deleting a terabyte of small files takes a while; what is not done in time is deleted by the next call."""


def hidden_runs_of(
    index: Index, rows: Sequence[Snapshot], reason: str, *, deleted: bool = False
) -> Mapping[str, HiddenRun]:
    """Return the records of hidden these runs by id, as they are now; an earlier one keeps what the run was."""
    by, now, before = "{user}@{machine}".format(**submitter()), time.time(), index.hidden_runs()
    copies = kept(index, [row.ref for row in rows])
    hidden_runs = {}
    for run_id, row in ((row.ref.run_id, row) for row in rows):
        if old := before.get(run_id):
            gone = deleted or old.deleted
            hidden_runs[run_id] = replace(old, removed=now, by=by, reason=reason or old.reason, deleted=gone)
        else:
            hidden_runs[run_id] = _hidden_run(row, manifest_text(copies[run_id].run_dir), (now, by, reason, deleted))
    return hidden_runs


def _hidden_run(row: Snapshot, text: str, end: tuple[float, str, str, bool]) -> HiddenRun:
    ref, manifest = row.ref, parse_manifest(text)
    return HiddenRun(
        ref.run_id,
        ref.launch_id,
        ref.name,
        ref.arm,
        ref.seed,
        ref.host,
        ref.node,
        manifest.position if manifest else 0,
        ref.created,
        manifest_digest(text) if manifest else "",
        row.state.value,
        outlook(row.verdict, row.state).word,
        row.registration.digest if row.registration else "",
        *end,
    )


def of_nodes(hidden_runs: Mapping[str, HiddenRun], workers: Sequence[RunRef]) -> Mapping[str, HiddenRun]:
    """Add hidden runs for the parts of these runs on other nodes."""
    of_workers = {
        ref.run_id: replace(hidden_runs[ref.head_id], run_id=ref.run_id, node=ref.node, host=ref.host, manifest="")
        for ref in workers
    }
    return {**hidden_runs, **of_workers}


@dataclass(slots=True)
class CheckpointSize:
    """A folder of checkpoints of one run, in bytes. `step`: the number at the end of its name."""

    run_id: str
    name: str
    bytes: int

    @property
    def step(self) -> int:
        digits = "".join(each if each.isdecimal() else " " for each in self.name).split()
        return int(digits[-1]) if digits else 0


@dataclass(slots=True)
class PruneAnswer:
    """What hosts answered, sizes in bytes. `refused`: why a run stays, by its id, or its host's reason.

    `latest`: the step of the last complete checkpoint of a run. `linked`: the runs whose checkpoints are a link to
    another place. `trash`: what an earlier call left partly deleted, by host. `left`: what this one could not delete.
    """

    done: list[str] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    linked: list[str] = field(default_factory=list)
    checkpoints: list[CheckpointSize] = field(default_factory=list)
    trash: dict[str, int] = field(default_factory=dict)
    freed: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    swept: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def why_not(self, run_id: str) -> str:
        """Return why a run was not deleted completely; empty if it was."""
        if run_id in self.left:
            return f"{self.left[run_id] >> 20} MiB of it could not be deleted, and are in the trash beside the runs"
        return "" if run_id in self.freed else self.refused.get(run_id, "nothing was heard of it: type the same again")


def bury_on_hosts(refs: Sequence[RunRef], hidden_runs: Mapping[str, HiddenRun]) -> PruneAnswer:
    """Write the records of hidden runs beside the runs on their hosts."""
    return _call("bury", refs, {ref.run_id: (hidden_run_text(hidden_runs[ref.run_id]),) for ref in refs}, _BURY_S)


def unbury_on_hosts(refs: Sequence[RunRef]) -> PruneAnswer:
    """Remove the records of hidden runs beside the runs."""
    return _call("unbury", refs, {ref.run_id: () for ref in refs}, _BURY_S)


def measure(refs: Sequence[RunRef]) -> PruneAnswer:
    """Measure runs and their checkpoints on their hosts."""
    return _call("measure", refs, {ref.run_id: () for ref in refs}, _MEASURE_S)


def delete_runs(refs: Sequence[RunRef], hidden_runs: Mapping[str, HiddenRun]) -> PruneAnswer:
    """Delete the run directories that have such a record; each host checks again whether they may be deleted."""
    chosen = [ref for ref in refs if ref.run_id in hidden_runs]
    words = {ref.run_id: (_kind(ref), hidden_run_text(hidden_runs[ref.run_id])) for ref in chosen}
    return _call("runs", refs, words, _DELETE_S)


def delete_checkpoints(refs: Sequence[RunRef], names: Mapping[str, Sequence[str]]) -> PruneAnswer:
    """Delete these folders of the checkpoints of runs."""
    words = {ref.run_id: (_kind(ref), " ".join(names[ref.run_id])) for ref in refs if ref.run_id in names}
    return _call("checkpoints", refs, words, _DELETE_S)


def _kind(ref: RunRef) -> str:
    return "taken-in" if is_adopted(ref) else ref.container or "none"


def _call(verb: str, refs: Sequence[RunRef], words: Mapping[str, Sequence[str]], deadline_s: float) -> PruneAnswer:
    """Send one command per root. A host that does not answer refuses all of its runs."""

    def question(place: Place, root: str, ids: Sequence[str]) -> tuple[str, str]:
        arguments = [word for run_id in ids if run_id in words for word in (run_id, *words[run_id])]
        # The arguments are sent with the script, because the length of a command line is limited.
        part = ScriptPart(supervisor.beside("prune.sh"), (verb, root, *arguments))
        (done,) = run_parts(transport_for(place), [part], deadline_s)
        return place.host, supervisor.answer(place, verb, done)

    result, answer = query_places(refs, question, deadline_s), PruneAnswer()
    for host, text in result.answers:
        with reading_answer(host, "rlx prune"):
            _read(host, text.splitlines(), answer)
    for ref in refs:
        if ref.place in result.failures:
            answer.refused[ref.run_id] = result.failures[ref.place].message
    return answer


def _read(host: str, lines: Iterable[str], answer: PruneAnswer) -> None:
    sizes = {"run": answer.runs, "freed": answer.freed, "left": answer.left}
    lists = {"buried": answer.done, "unburied": answer.done, "linked": answer.linked}
    of_host = {"trash": answer.trash, "swept": answer.swept}
    for line in lines:
        kind, first, *rest = line.split(" ")
        if kind in lists:
            lists[kind].append(first)
        elif kind in sizes:
            sizes[kind][first] = sizes[kind].get(first, 0) + _bytes(rest[0])
        elif kind in of_host:
            of_host[kind][host] = of_host[kind].get(host, 0) + _bytes(first)
        elif kind == "latest":
            answer.latest[first] = int(rest[0])
        elif kind == "checkpoint":
            answer.checkpoints.append(CheckpointSize(first, rest[1], _bytes(rest[0])))
        elif kind == "refused":
            answer.refused[first] = " ".join(rest)


def _bytes(kib: str) -> int:
    return int(kib[:18]) << 10
