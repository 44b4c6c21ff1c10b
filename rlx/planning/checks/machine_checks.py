"""Findings on the machine itself: programs, disk, clock, memory, processes."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.hosts.clock import SET_CLOCK
from rlx.model import Finding, Severity
from rlx.planning.probing.examined import Examined, chips, folders, is_held_outside, root_is_settled
from rlx.planning.probing.probe import Facts, Side
from rlx.planning.wanted import host_of

# What supervise.sh calls; on the host it is the holder that does, in the container the supervisor.
_HOST_TOOLS = ("tar", "gzip", "mktemp", "setsid", "flock", "stat", "tail", "xargs", "grep", "awk", "sed", "od")
_INSIDE_TOOLS = ("bash", "mktemp", "setsid", "stat", "grep", "od")
_GIB_IN_KIB = 1024**2
# With less than the first not even a log fits; a checkpoint needs far more than the second.
_NO_SPACE_KIB, _LITTLE_SPACE_KIB = 100 * 1024, 20 * _GIB_IN_KIB
_FEW_INODES = 10_000
_MANY_ZOMBIES = 100
_LITTLE_MEMORY_SHARE = 0.1
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


def tools(examined: Examined) -> Iterator[Finding]:
    """The programs that rlx calls. No Python is needed for rlx itself."""
    for where, side in examined.sides():
        found = side.of("tools")
        if found:
            yield from _missing_tools(where, found, _needed(examined, inside=side is examined.inside))
    host = examined.host.of("tools")
    if host and "tmux" not in host["paths"]:
        yield Finding(
            "RLX511",
            Severity.NOTE,
            "there is no tmux: runs work without it, but nobody can attach to one",
            "apt-get install tmux, or yum install tmux",
            examined.site.host,
        )


def _needed(examined: Examined, *, inside: bool) -> tuple[str, ...]:
    all_of_it = (*_HOST_TOOLS, "bash")
    if examined.site.container is None:
        return all_of_it
    if is_held_outside(examined):
        return _INSIDE_TOOLS if inside else _HOST_TOOLS
    return all_of_it if inside else ()


def _missing_tools(where: str, found: Facts, needed: tuple[str, ...]) -> Iterator[Finding]:
    missing = [tool for tool in needed if tool not in found["paths"]]
    if "flock" in needed and "flock" not in missing and not found["flock_options"]:
        missing.append("flock of util-linux (this one lacks -o and -E)")
    if "stat" in needed and "stat" not in missing and not found["stat_format"]:
        missing.append("stat of coreutils (this one lacks -c)")
    if missing:
        fix = "install util-linux, coreutils, tar, gzip, grep, sed, gawk, findutils and bash"
        yield Finding("RLX510", Severity.ERROR, f"missing: {', '.join(missing)}", fix, where)


def disk(examined: Examined) -> Iterator[Finding]:
    """Judge space and inodes of every folder asked for; rights and kind of the one that holds the runs."""
    for where, side in examined.sides():
        root = examined.site.container_root if side is examined.inside else examined.site.root
        for folder in folders(side):
            holds_runs = folder["path"] == root and (side is examined.inside or root_is_settled(examined))
            yield from _space(where, folder, holds_runs)
            if holds_runs:
                yield from _root(where, folder, examined)


def _space(where: str, folder: Facts, holds_runs: bool) -> Iterator[Finding]:
    free, inodes, total_inodes = folder["free_kib"], folder["free_inodes"], folder["inodes"]
    if free is not None and free < _LITTLE_SPACE_KIB:
        severity = Severity.ERROR if holds_runs and free < _NO_SPACE_KIB else Severity.WARNING
        message = f"{folder['path']}: {free / _GIB_IN_KIB:.1f} GiB free on {folder['mount']}"
        yield Finding("RLX512", severity, message, "free some space, or set another root: rlx hosts add", where)
    # btrfs and others count no inodes and say 0 of 0.
    if total_inodes and inodes is not None and inodes < _FEW_INODES:
        message = f"{folder['path']}: {inodes} inodes free on {folder['mount']}"
        yield Finding("RLX512", Severity.WARNING, message, "delete small files there: df -i shows them", where)


def _root(where: str, folder: Facts, examined: Examined) -> Iterator[Finding]:
    if not folder["writable"]:
        user = examined.host.of("machine").get("user", "this user")
        message = f"{folder['existing']}: {user} may not write there, so {folder['path']} cannot hold runs"
        yield Finding("RLX513", Severity.ERROR, message, "choose a root that you own: rlx hosts add … --root", where)
    if folder["type"] in _MEMORY_FILE_SYSTEMS:
        message = f"{folder['path']} lies in memory ({folder['type']}): runs there go with the next restart"
        yield Finding("RLX514", Severity.WARNING, message, "choose a root on a disk: rlx hosts add … --root", where)


def clock(examined: Examined) -> Iterator[Finding]:
    """Ages are measured on the host itself, so a wrong clock harms certificates and time stamps, not verdicts."""
    if examined.clock and (skew := examined.clock.skew):
        yield Finding("RLX515", Severity.WARNING, f"the clock is {skew}", SET_CLOCK, examined.site.host)


def processes(examined: Examined) -> Iterator[Finding]:
    for where, side in examined.sides():
        found = side.of("processes")
        if found and found["zombies"] >= _MANY_ZOMBIES:
            yield _zombies(where, found, side is examined.inside)
        if found and found["raylets"]:
            users = sorted({raylet["user"] or "?" for raylet in found["raylets"]})
            message = f"{len(found['raylets'])} Ray node(s) run here already, of {', '.join(users)}"
            yield Finding("RLX518", Severity.NOTE, message, "nothing: a run starts a Ray of its own", where)


def _zombies(where: str, found: Facts, inside: bool) -> Finding:
    parents = ", ".join(
        f"{parent['zombies']} of {parent['name'] or '?'} ({parent['pid']})" for parent in found["parents"][:3]
    )
    fix = "restart the container when nobody uses it, with --init the next time" if inside else "end these parents"
    return Finding("RLX516", Severity.WARNING, f"{found['zombies']} zombie processes: {parents}", fix, where)


def memory_and_cpus(examined: Examined) -> Iterator[Finding]:
    found = examined.host.of("machine")
    total, free = found.get("memory_kib"), found.get("memory_free_kib")
    if total and free is not None and free < total * _LITTLE_MEMORY_SHARE:
        message = (
            f"{free / _GIB_IN_KIB:.0f} of {total / _GIB_IN_KIB:.0f} GiB memory are free; Ray kills workers at 95 %"
        )
        yield Finding("RLX517", Severity.WARNING, message, "see who holds it: ps aux --sort=-rss", examined.site.host)
    environment = examined.environment
    cpus = environment.of("machine").get("cpus") if environment else None
    wanted = examined.wanted
    if wanted.backend and cpus is not None:
        for flaw in host_of(wanted.backend).shortage(cpus, wanted, len(chips(examined.host))):
            yield Finding(flaw.id, Severity.ERROR, flaw.message, flaw.fix, examined.where)


def silence(examined: Examined) -> Iterator[Finding]:
    """Name what did not answer, because nothing is concluded from what it would have said."""
    for where, side in examined.sides():
        yield from (_silent(where, side, name) for name in side.silent if name != "npu_smi")


def _silent(where: str, side: Side, name: str) -> Finding:
    message = f"the probe {name} did not answer within {side.silent[name]} s"
    return Finding("RLX520", Severity.WARNING, message, f"look at the machine's load: uptime, on {where}", where)
