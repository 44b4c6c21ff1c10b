"""Send a launch to one host, and unpack and start it there, in one command."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.hosts import Completed, tmux_socket, transport_for
from rlx.model import Cmd, Site
from rlx.model.run_dir import SUPERVISE_FILE
from rlx.runs.launching.shares import Part
from rlx.runs.launching.shipment import digest, shared_container

_TIMEOUT_S = 120.0
_TIMEOUT_EACH_RUN_S = 30.0

# The lock on fd 5 makes launches to one root take turns, so whatever `.incoming-` is there of this node belongs to
# nobody. Who waits for it ends with its connection. The rest is a session of its own, which a lost connection does not
# end half way: tar finds the archive cut off, and all of it goes; what has arrived as a whole starts.
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
    for part in "$supervise" order; do cat "$incoming/$part" >"$own/$part" || exit; done
    seen=$(cat "$own/$supervise" "$own/order" | sha256sum)
    [ "${seen%% *}" = "$digest" ] || { echo "somebody changed the shipment below $root/runs" >&2; exit 1; }
fi
sh "$own/$supervise" "$verb" "$own" "$incoming" "$root" "$leases" "$socket" "$container" "$inner"
exit
"""
)


def deliver(part: Part, launch_id: str, archive: bytes) -> Completed:
    """The runs packed into `archive` are put in place and started. Raises HostError."""
    timeout_s = _TIMEOUT_S + _TIMEOUT_EACH_RUN_S * len(part.runs)
    return send(part.site, "accept", launch_id, digest(part.runs), archive, timeout_s)


def send(
    site: Site, verb: str, launch_id: str, digest: str, archive: bytes, timeout_s: float = _TIMEOUT_S
) -> Completed:
    """Unpack the archive at a site, and let the supervise.sh in it do `verb` with it. Raises HostError.

    `digest`: of supervise.sh and `order`, which nobody may change on the way.
    """
    words = (site.root, site.leases, tmux_socket(), launch_id, digest, *shared_container(site), verb)
    cmd = Cmd("sh", "-c", _TAKE_TURN, "rlx-launch", _UNPACK, *words)
    return transport_for(site.place).run(cmd, stdin=archive, timeout_s=timeout_s)


def started_ids(answers: Sequence[str]) -> list[str]:
    """The ids of the runs that the host says are there, from before or from now."""
    return [answer.split()[1] for answer in answers if answer.startswith(("started", "existing"))]
