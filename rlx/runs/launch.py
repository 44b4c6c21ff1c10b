"""Launches plans: journal, ship, start. One round trip, and truthful at whatever moment rlx dies.

The runs are journaled before anything is shipped. On the host, each run directory is built aside and renamed, then
its holder is started; a run that has no directory is no run. The same plans launched again, while the journal does
not know how the launch went, complete it under the same ids.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.hosts import Completed, tmux_socket, transport_for
from rlx.hosts.errors import HostError
from rlx.plan import Cmd, LaunchPlan, RunState, Severity, Site, to_jsonable
from rlx.runs.index import Index
from rlx.runs.observe import Observation, observe
from rlx.runs.run import RunRef, new_launch_id, new_ref
from rlx.runs.shipment import check_plan, digest, pack, pick_secrets, shared_container
from rlx.runs.tables import PendingLaunch

_TIMEOUT_S = 120.0
_TIMEOUT_EACH_RUN_S = 30.0
_MOST_LINES = 5
_REPEAT_S = 3600.0

# The lock on fd 5 makes launches to one root take turns, so whatever `.incoming-` is there belongs to nobody. Who waits
# for it ends with its connection. The rest is a session of its own, which a lost connection does not end half way:
# tar finds the archive cut off, and all of it goes; what has arrived as a whole starts.
_TAKE_TURN = r"""
umask 077
for tool in flock setsid tar gzip mktemp; do
    command -v "$tool" >/dev/null || { echo "this host has no $tool" >&2; exit 1; }
done
unpack=$1 root=$2
case $root in "~" | "~/"*) root=${HOME:?}${root#"~"} ;; esac
mkdir -p "$root/runs" || exit
exec 5<"$root/runs"
flock -w 100 5 || { echo "another launch to $root is under way" >&2; exit 1; }
shift 2
setsid sh -c "$unpack" rlx-launch "$root" "$@"
# Not last: in place of this shell, setsid would not wait.
exit
"""
_UNPACK = r"""
root=$1 leases=$2 socket=$3 launch=$4 digest=$5 container=$6 inner=$7
for old in "$root"/runs/.incoming-*; do [ ! -e "$old" ] || rm -rf "$old"; done
incoming=$(mktemp -d "$root/runs/.incoming-$launch-XXXXXX") || exit
trap 'rm -rf "$incoming"' EXIT
# PIPE: a shell complains of the children that it sees killed, to a reader who is gone.
trap 'exit 143' HUP INT PIPE TERM
# Whoever owns the folder of the runs can put another one in the place of a run. Our own uid is that of what we just
# made there: a file server may call us nobody.
set -- $(stat -Lc %u "$root/runs" "$incoming")
case "$# $1" in
    "2 $2" | "2 0") ;;
    *) echo "$root/runs belongs to another user (uid $1); choose a root of your own" >&2; exit 1 ;;
esac
tar -xzmf - -C "$incoming" || exit
# Root of a container that shares the folder can change all that lies there, while it is read. What this user runs is
# run from elsewhere, and is what was sent.
own=$incoming
if [ -n "$container" ]; then
    command -v sha256sum >/dev/null || { echo "this host has no sha256sum" >&2; exit 1; }
    own=$(mktemp -d) || exit
    trap 'rm -rf "$incoming" "$own"' EXIT
    for part in supervise.sh order; do cat "$incoming/$part" >"$own/$part" || exit; done
    seen=$(cat "$own/supervise.sh" "$own/order" | sha256sum)
    [ "${seen%% *}" = "$digest" ] || { echo "somebody changed the shipment below $root/runs" >&2; exit 1; }
fi
sh "$own/supervise.sh" accept "$own" "$incoming" "$root" "$leases" "$socket" "$container" "$inner"
exit
"""


@dataclass(frozen=True, slots=True)
class Launched:
    """The runs in the order of the plans. `completed` is True if an interrupted launch was brought to its end."""

    launch_id: str
    runs: tuple[RunRef, ...]
    completed: bool = False
    warnings: tuple[str, ...] = ()


def launch(plans: Sequence[LaunchPlan], secrets: Mapping[str, str], home: Path) -> Launched:
    """Start every plan on its host, in order, and return at once. `secrets` are the values for the plans' names.

    Raises UsageError before anything is written if a plan cannot be launched or a secret is missing; RlxError if the
    host refuses, and then no run that did not start is left behind.
    """
    site = _check(plans, secrets)
    index = Index(home)
    pending = _journal(index, plans)
    try:
        completed = _ship(plans, pending, pack(plans, pending.runs, secrets))
    except HostError as error:
        raise _cut_off(index, pending, site, error) from None
    answers = completed.out.decode(errors="replace").splitlines()
    if completed.code != 0:
        if pending.is_new and not any(answer.startswith(("started", "existing")) for answer in answers):
            index.forget(pending.launch_id)
        raise _refusal(site, completed, answers)
    index.resolve_launch(pending.launch_id)
    warnings = tuple(answer.removeprefix("warning ") for answer in answers if answer.startswith("warning "))
    return Launched(pending.launch_id, pending.runs, not pending.is_new, warnings)


def _check(plans: Sequence[LaunchPlan], secrets: Mapping[str, str]) -> Site:
    if not plans:
        raise UsageError("there is nothing to launch", "name at least one arm")
    site = plans[0].site
    if any(plan.site != site for plan in plans):
        raise UsageError("the plans name several hosts or roots", "launch each host's plans by themselves")
    for plan in plans:
        check_plan(plan)
        pick_secrets(plan, secrets)
        for finding in plan.findings:
            if finding.severity is Severity.ERROR:
                raise RlxError(
                    f"{plan.run_name}: {finding.id} {finding.message}", finding.fix, ExitCode.PREFLIGHT_FAILED
                )
    transport_for(site.place)
    return site


def _journal(index: Index, plans: Sequence[LaunchPlan]) -> PendingLaunch:
    plan_digest = hashlib.sha256(json.dumps(to_jsonable(plans), sort_keys=True).encode()).hexdigest()
    pending = index.pending(plan_digest)
    now = time.time()
    if pending is not None and _is_history(list(observe(index, pending.runs).values()), now - pending.runs[0].created):
        # It had arrived after all, and is over: whoever launches these plans now wants them to run again.
        index.resolve_launch(pending.launch_id)
    launch_id = new_launch_id(now)
    return index.begin(plan_digest, launch_id, [new_ref(plan, launch_id, now) for plan in plans])


def _is_history(seen: Sequence[Observation], age_s: float) -> bool:
    """Not soon after an interruption: then the launch is typed again because nobody knows that it has run."""
    stopped = any(found.state is RunState.STOPPED for found in seen)
    return all(map(_has_run, seen)) and (stopped or age_s > _REPEAT_S)


def _has_run(seen: Observation) -> bool:
    return seen.state is RunState.STOPPED or (seen.state.is_terminal and seen.started_epoch is not None)


def _ship(plans: Sequence[LaunchPlan], pending: PendingLaunch, archive: bytes) -> Completed:
    site = plans[0].site
    words = (site.root, site.leases, tmux_socket(), pending.launch_id, digest(plans, pending.runs))
    cmd = Cmd("sh", "-c", _TAKE_TURN, "rlx-launch", _UNPACK, *words, *shared_container(site))
    timeout_s = _TIMEOUT_S + _TIMEOUT_EACH_RUN_S * len(pending.runs)
    return transport_for(site.place).run(cmd, stdin=archive, timeout_s=timeout_s)


def _cut_off(index: Index, pending: PendingLaunch, site: Site, error: HostError) -> HostError:
    """What to believe when no answer came: nothing happened, or nobody knows; only then it stays in the journal."""
    again = "the same launch again completes it and starts nothing twice"
    if error.arrived:
        return HostError(
            f"{error.message}\nthe launch to {site.host} may have started",
            f"{again}; rlx status --host {site.host} shows what is there",
        )
    if not pending.is_new:
        return HostError(f"{error.message}\nan earlier attempt of this launch may have started", again)
    index.forget(pending.launch_id)
    return HostError(f"{error.message}\nnothing was launched", error.hint)


def _refusal(site: Site, completed: Completed, answers: Sequence[str]) -> RlxError:
    complaint = _shortened(completed.err.decode(errors="replace").strip()) or f"exit {completed.code}"
    started = [answer.split()[1] for answer in answers if answer.startswith(("started", "existing"))]
    hint = f"these runs did start: {', '.join(started)}; the same launch again starts the rest" if started else ""
    return RlxError(f"{site.host}: the launch to {site.root} failed: {complaint}", hint)


def _shortened(complaint: str) -> str:
    """The first lines: on a full disk, tar complains about every single file."""
    lines = complaint.splitlines()
    more = [f"(and {len(lines) - _MOST_LINES} more lines)"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])
