"""Launch plans: journal, ship, start. One round trip per host, all hosts at once; safe if rlx is killed at any time.

The runs are journaled before anything is shipped. On the host, each run directory is built under another name and
renamed, then its holder is started; a run without a directory does not exist. The same plans launched again, while the
journal does not know how the launch ended, complete it under the same ids. Of runs of several nodes the workers are
sent first: they wait for their head.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.hosts import Completed, tmux_socket, transport_for
from rlx.hosts.host_errors import HostError
from rlx.model import Cmd, LaunchPlan, RunState, Severity, Site, to_jsonable
from rlx.model.launch_plan import is_sealed
from rlx.model.run_dir import SUPERVISE_FILE
from rlx.payload.mask_secrets import SHORTEST, SHORTEST_NUMBER
from rlx.runs.control import stop
from rlx.runs.index.registrations import with_registrations
from rlx.runs.index.run_index import Index
from rlx.runs.index.tables import PendingLaunch
from rlx.runs.launching.shipment import (
    Shipped,
    block_name,
    check_plan,
    pack,
    pick_secrets,
    ray_tokens,
    sent_manifests,
    shared_container,
    shipment_digest,
    short_secrets,
)
from rlx.runs.queries import in_parallel
from rlx.runs.run import RunRef, new_launch_id, new_ref, worker_ref
from rlx.runs.status.observation import Observation
from rlx.runs.status.snapshots import take_snapshots

_MOST_LINES = 5
_REPEAT_S = 3600.0
_UNCHECKED = "the rules have not judged this plan, or it was changed since, or another version of rlx made it"
_UNMASKED = (
    f"the secret {{}} has fewer than {SHORTEST} bytes, or fewer than {SHORTEST_NUMBER} and digits alone: its value "
    "is not masked where the run shows it"
)
_BY_PREFLIGHT = "plan it with rlx.plan, or rlx plan RECIPE --json and rlx launch --plan FILE"
_STOP = "rlx status shows it; rlx stop ends it for good"
_TIMEOUT_S = 120.0
_TIMEOUT_EACH_RUN_S = 30.0


@dataclass(frozen=True, slots=True)
class Launched:
    """The launched runs in the order of the plans. `completed` is True if an interrupted launch was completed."""

    launch_id: str
    runs: tuple[RunRef, ...]
    completed: bool = False
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[RunRef]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, number: int) -> RunRef:
        return self.runs[number]


def launch(plans: Sequence[LaunchPlan], secrets: Mapping[str, str], home: Path, asked: str = "") -> Launched:
    """Start every plan on its host, in order, and return at once. `secrets` are the values for the plans' names.

    Plans of one node each may go to several hosts. `asked` is the request of a sweep, which is the same launch whatever
    host gets which run. Raises UsageError before anything is written if a plan cannot be launched or a secret is
    missing, RlxError (exit 5) for a plan that has not passed the preflight; RlxError if a host refuses, and then no run
    is left that did not start.
    """
    _check(plans, secrets)
    index = Index(home)
    registered = with_registrations(home, plans)
    # The journal finds a launch by the digest of its plans without times: the same plans are the same launch.
    pending = _journal(index, plans, asked)
    tokens = ray_tokens(home, pending.runs) if plans[0].workers else {}
    shares = _shares_of(index, pending, registered, is_sweep=bool(asked))
    index.keep_manifests([row for part in chain.from_iterable(shares) for row in sent_manifests(part.runs)])
    answers = _deliver_all(index, pending, shares, lambda part: pack(part.runs, secrets, tokens))
    heads = tuple(ref for ref in pending.runs if not ref.node)
    if len(plans) == len(heads):
        index.resolve_launch(pending.launch_id)
    warnings = tuple(answer.removeprefix("warning ") for answer in answers if answer.startswith("warning "))
    warnings += tuple(
        _UNMASKED.format(name) for plan in plans for node in plan.nodes for name in short_secrets(node, secrets)
    )
    return Launched(pending.launch_id, heads, not pending.is_new, tuple(dict.fromkeys(warnings)))


def _deliver_all(
    index: Index, pending: PendingLaunch, shares: Sequence[Share], pack: Callable[[Part], bytes]
) -> list[str]:
    """Send all shares at once, and return the hosts' answers. Raises RlxError."""
    alone = len(shares) == 1

    def start(share: Share) -> list[str]:
        return [answer for part in share for answer in _start(index, pending, part, pack(part), alone=alone)]

    if alone:
        return start(shares[0])
    done = in_parallel(shares, start)
    failures = [one for one in done if isinstance(one, RlxError)]
    answers = [answer for one in done if isinstance(one, list) for answer in one]
    if failures:
        started = started_ids(answers)
        text = "\n".join(failure.message for failure in failures)
        hint = f"these runs did start: {', '.join(started)}; " if started else ""
        raise RlxError(text, f"{hint}the same launch again starts the rest, and nothing twice", failures[0].exit_code)
    return answers


def _start(index: Index, pending: PendingLaunch, part: Part, archive: bytes, *, alone: bool) -> list[str]:
    """Send one part, and return the host's answers. `alone`: no other host gets a part meanwhile. Raises RlxError."""
    try:
        completed = send_part(part, pending.launch_id, archive)
    except HostError as error:
        raise _cut_off(index, pending, part, error, alone=alone) from None
    answers = completed.out.decode(errors="replace").splitlines()
    if completed.code != 0:
        if alone and pending.is_new and not started_ids(answers):
            _take_back(index, pending, part)
        raise _refusal(part.site, completed, answers)
    return answers


def _take_back(index: Index, pending: PendingLaunch, failed: Part) -> None:
    """Stop the workers that were sent before a part of which nothing has started, because they wait for their head."""
    for ref in pending.runs:
        if ref.node and (failed.node == 0 or ref.node < failed.node):
            # A worker that cannot be reached ends by itself after its timeout.
            with suppress(RlxError):
                stop(ref, 0)
    index.forget(pending.launch_id)


def _check(plans: Sequence[LaunchPlan], secrets: Mapping[str, str]) -> None:
    if not plans:
        raise UsageError("there is nothing to launch", "name at least one arm")
    if any(plan.workers and _sites_of(plan) != _sites_of(plans[0]) for plan in (*plans, plans[0])):
        raise UsageError("the plans name several hosts or roots", "launch each host's plans by themselves")
    for plan in plans:
        for node in plan.nodes:
            check_plan(node)
            pick_secrets(node, secrets)
            for error in (finding for finding in node.findings if finding.severity is Severity.ERROR):
                raise RlxError(f"{node.run_name}: {error.id} {error.message}", error.fix, ExitCode.PREFLIGHT_FAILED)
            transport_for(node.site.place)
        if not is_sealed(plan):
            raise RlxError(f"{plan.run_name}: {_UNCHECKED}", _BY_PREFLIGHT, ExitCode.PREFLIGHT_FAILED)


def unfinished(index: Index, asked: str) -> PendingLaunch | None:
    """Return the interrupted launch of this request, unless its runs are over."""
    pending = index.pending(asked)
    if pending is None:
        return None
    seen = [snapshot.observation for snapshot in take_snapshots(index, pending.runs).values()]
    if _is_history(seen, time.time() - pending.runs[0].created):
        # It had arrived after all, and is over: a launch of these plans now is a new one.
        index.resolve_launch(pending.launch_id)
        return None
    return pending


def _journal(index: Index, plans: Sequence[LaunchPlan], asked: str) -> PendingLaunch:
    asked = asked or hashlib.sha256(json.dumps(to_jsonable(plans), sort_keys=True).encode()).hexdigest()
    unfinished(index, asked)
    now = time.time()
    launch_id, refs = new_launch_id(now), list[RunRef]()
    for plan in plans:
        head = new_ref(plan, launch_id, now)
        refs += [head, *(worker_ref(head, worker) for worker in plan.workers)]
    return index.begin(asked, launch_id, refs)


def _is_history(seen: Sequence[Observation], age_s: float) -> bool:
    """Tell whether the launch is over for good. Soon after an interruption a repeated launch continues it."""
    stopped = [found.state is RunState.STOPPED for found in seen]
    ended = [found.state.is_terminal and found.started_epoch is not None for found in seen]
    return all(map(any, zip(stopped, ended, strict=True))) and (any(stopped) or age_s > _REPEAT_S)


def _cut_off(index: Index, pending: PendingLaunch, part: Part, error: HostError, *, alone: bool) -> HostError:
    """Handle a missing answer: forget the launch if nothing can have started, else keep it in the journal."""
    again = "the same launch again completes it and starts nothing twice"
    if error.arrived:
        return HostError(
            f"{error.message}\nthe launch to {part.site.host} may have started",
            f"{again}; rlx status --host {part.site.host} lists its runs",
        )
    if not pending.is_new:
        return HostError(f"{error.message}\nan earlier attempt of this launch may have started", again)
    if not alone:
        return HostError(f"{error.message}\nnothing was launched there", error.hint)
    _take_back(index, pending, part)
    return HostError(f"{error.message}\nnothing was launched", error.hint)


def _refusal(site: Site, completed: Completed, answers: Sequence[str]) -> RlxError:
    # On a full disk, tar complains about every single file.
    lines = completed.err.decode(errors="replace").strip().splitlines()
    more = [f"(and {len(lines) - _MOST_LINES} more lines)"] if len(lines) > _MOST_LINES else []
    complaint = "\n".join([*lines[:_MOST_LINES], *more]) or f"exit {completed.code}"
    started = started_ids(answers)
    hint = f"these runs did start: {', '.join(started)}; the same launch again starts the rest" if started else ""
    return RlxError(f"{site.host}: the launch to {site.root} failed: {complaint}", hint)


# ---- what each host gets ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a launch for one host: the same node of every run, or all nodes of those that are jobs."""

    runs: tuple[Shipped, ...]

    @property
    def site(self) -> Site:
        return self.runs[0].plan.site

    @property
    def node(self) -> int:
        return self.runs[0].ref.node


Share: TypeAlias = tuple[Part, ...]
"""The parts for the hosts of the same runs, in the order of sending: the heads last."""


def _sites_of(plan: LaunchPlan) -> list[Site]:
    """Return the sites of its nodes."""
    return [node.site for node in plan.nodes]


def _plan_nodes(pending: PendingLaunch, plans: Sequence[LaunchPlan]) -> list[Sequence[RunRef]]:
    """Return the references of each plan's nodes in the journal; a launch of more runs may be completed in part.

    Raises RlxError if a run was sent elsewhere when the launch was interrupted.
    """
    runs = _by_head(pending.runs)
    if len(runs) != len(plans):
        slots = {(run[0].arm, run[0].seed): run for run in runs}
        runs = [slots[plan.arm, plan.seed] for plan in plans]
    for plan, run in zip(plans, runs, strict=True):
        for site, ref in zip(_sites_of(plan), run, strict=True):
            if (ref.place, ref.root) != (site.place, site.root):
                raise RlxError(f"{ref.run_id} was launched to {ref.host}:{ref.root} before, and may run there", _STOP)
    return runs


def _by_head(refs: Sequence[RunRef]) -> list[Sequence[RunRef]]:
    runs: dict[str, list[RunRef]] = {}
    for ref in refs:
        runs.setdefault(ref.head_id, []).append(ref)
    return list(runs.values())


def _shares_of(index: Index, pending: PendingLaunch, plans: Sequence[LaunchPlan], *, is_sweep: bool) -> list[Share]:
    """Return a share for each set of hosts, in the order of the plans."""
    positions = {run[0].head_id: position for position, run in enumerate(_by_head(pending.runs))}
    moves = index.moves(pending.launch_id) if is_sweep else ()
    shares: list[list[Shipped]] = []
    for plan, run in zip(plans, _plan_nodes(pending, plans), strict=True):
        moved = tuple(move for move in moves if move.seed == plan.seed and move.has_left)
        block = block_name(pending.launch_id, plan.seed, len(moved)) if is_sweep else ""
        nodes = [
            Shipped(node, ref, positions[ref.head_id], block, moved) for node, ref in zip(plan.nodes, run, strict=True)
        ]
        mine = next((share for share in shares if _sites_of(share[0].plan) == _sites_of(plan)), None)
        if mine is None:
            shares.append(mine := [])
        mine += nodes
    return [_parts(share) for share in shares]


def _parts(nodes: Sequence[Shipped]) -> Share:
    """Order the parts: the workers' hosts first, the heads last; the nodes of a job are one part, its head last."""
    if nodes[0].plan.site.batch is not None:
        return (Part(tuple(sorted(nodes, key=lambda one: (one.position, one.ref.node == 0)))),)
    numbers = sorted({node.ref.node for node in nodes})
    return tuple(Part(tuple(one for one in nodes if one.ref.node == number)) for number in (*numbers[1:], 0))


# ---- one command on a host -------------------------------------------------------------------------------------------

# The lock on fd 5 makes launches to one root take turns, so any existing `.incoming-` of this node is left over from
# an earlier one. Waiting for the lock ends with the connection. The rest runs in its own session, which a lost
# connection does not interrupt: tar rejects an incomplete archive; a complete one is started.
_TAKE_TURN = r"""
umask 077
for tool in flock setsid tar gzip mktemp; do
    command -v "$tool" >/dev/null || { echo "this host has no $tool" >&2; exit 1; }
done
unpack=$1 root=$2
case $root in "~" | "~/"*) root=${HOME:?}${root#"~"} ;; esac
mkdir -p "$root/runs" || exit
exec 5<"$root/runs"
flock -w 100 -E 99 5
case $? in
    0) ;;
    99) echo "another launch to $root is under way" >&2; exit 1 ;;
    *)
        echo "$root cannot be locked: its file system ($(stat -f -c %T "$root")) knows no flock: choose another" >&2
        exit 1
        ;;
esac
shift 2
setsid sh -c "$unpack" rlx-launch "$root" "$@"
# Not last: in place of this shell, setsid would not wait.
exit
"""

_UNPACK = (
    f"supervise={SUPERVISE_FILE}"
    + r"""
root=$1 leases=$2 socket=$3 launch=$4 digest=$5 container=$6 inner=$7 verb=$8
# Only this node's: another one that shares the folder may not share the lock.
read -r node </proc/sys/kernel/hostname
for old in "$root/runs/.incoming-$node@"*; do [ ! -e "$old" ] || rm -rf "$old"; done
incoming=$(mktemp -d "$root/runs/.incoming-$node@$launch-XXXXXX") || exit
trap 'rm -rf "$incoming"' EXIT
# PIPE: a shell complains of the children that it sees killed, to a reader who is gone.
trap 'exit 143' HUP INT PIPE TERM
# The owner of the folder of the runs can replace a run. Our own uid is that of what we just made there: a file server
# may map us to another one.
set -- $(stat -Lc %u "$root/runs" "$incoming")
case "$# $1" in
    "2 $2" | "2 0") ;;
    *) echo "$root/runs belongs to another user (uid $1); choose a root of your own" >&2; exit 1 ;;
esac
tar -xzmf - -C "$incoming" || exit
# Root of a container that shares the folder can change everything in it while it is read. What this user executes is
# copied elsewhere first, and must be what was sent.
own=$incoming
if [ -n "$container" ]; then
    command -v sha256sum >/dev/null || { echo "this host has no sha256sum" >&2; exit 1; }
    own=$(mktemp -d) || exit
    trap 'rm -rf "$incoming" "$own"' EXIT
    for part in "$supervise" order; do cat "$incoming/$part" >"$own/$part" || exit; done
    seen=$(cat "$own/$supervise" "$own/order" | sha256sum)
    [ "${seen%% *}" = "$digest" ] || { echo "the shipment below $root/runs was changed by another user" >&2; exit 1; }
fi
sh "$own/$supervise" "$verb" "$own" "$incoming" "$root" "$leases" "$socket" "$container" "$inner"
exit
"""
)


def send_part(part: Part, launch_id: str, archive: bytes) -> Completed:
    """Put the runs in `archive` in place on their host, and start them. Raises HostError."""
    timeout_s = _TIMEOUT_S + _TIMEOUT_EACH_RUN_S * len(part.runs)
    return send_archive(part.site, "accept", launch_id, shipment_digest(part.runs), archive, timeout_s)


def send_archive(
    site: Site, verb: str, launch_id: str, digest: str, archive: bytes, timeout_s: float = _TIMEOUT_S
) -> Completed:
    """Unpack the archive at a site, and let the supervise.sh in it run `verb` with it. Raises HostError.

    `digest`: of supervise.sh and `order`, which must arrive unchanged.
    """
    words = (site.root, site.leases, tmux_socket(), launch_id, digest, *shared_container(site), verb)
    cmd = Cmd("sh", "-c", _TAKE_TURN, "rlx-launch", _UNPACK, *words)
    return transport_for(site.place).run(cmd, stdin=archive, timeout_s=timeout_s)


def started_ids(answers: Sequence[str]) -> list[str]:
    """Return the ids of the runs that the host has, from before or from now."""
    return [answer.split()[1] for answer in answers if answer.startswith(("started", "existing"))]
