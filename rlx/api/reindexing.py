"""Build the index of runs anew from the hosts; what was there before is kept beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.api.telling import unheard

if TYPE_CHECKING:
    from pathlib import Path

    from rlx.api.telling import Tell


@dataclass(frozen=True, slots=True)
class Reindexed:
    """A new index. `copy`: where the one before is, None if there was none. `found`: by host, how many runs it shows.

    `silent`: by host, why it did not answer. `missing`: the runs that the copy or a mirror names and no host has shown,
    with the host as the copy has it, "" where that cannot be read.
    """

    copy: Path | None
    found: Mapping[str, int]
    silent: Mapping[str, str]
    missing: Mapping[str, str]


def reindex(tell: Tell = unheard) -> Reindexed:
    """Build the index anew from this machine, the known hosts, and what was adopted or imported here.

    The index before is renamed, never deleted. What only that has: digests of manifests and containers as they were
    launched, and launches and moves that are under way. Raises RlxError where it cannot be renamed.
    """
    from rlx.api.home import rlx_home
    from rlx.api.status import rebuild
    from rlx.errors import RlxError
    from rlx.hosts import known_hosts
    from rlx.runs import Index
    from rlx.runs.copies.mirror import folder_of
    from rlx.runs.copies.mirror_store import mirror_folders
    from rlx.runs.index.run_index import runs_in, set_aside
    from rlx.runs.queries import in_parallel, in_time

    home = rlx_home()
    copy = set_aside(home)
    index = Index(home)
    hosts = [name for name, host in known_hosts().items() if host.ssh]
    answers = in_parallel(hosts, lambda host: in_time(host, lambda: rebuild(index, host, tell)))
    silent = {host: answer.message for host, answer in zip(hosts, answers, strict=True) if isinstance(answer, RlxError)}
    refs, before = index.nodes(), {each.run_id: "" for each in mirror_folders(folder_of(index))}
    before |= runs_in(copy) if copy else {}
    known = {ref.run_id for ref in refs}
    return Reindexed(
        copy=copy,
        found={host: sum(ref.host == host and not ref.node for ref in refs) for host in ("local", *hosts)},
        silent=silent,
        missing={run_id: host for run_id, host in before.items() if run_id not in known},
    )
