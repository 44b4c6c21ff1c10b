"""Query the machine itself, on every host and in every container: programs, disk, clock, memory, processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rlx.hosts.clock import SET_CLOCK
from rlx.model import Cmd, Finding, Severity, Site
from rlx.planning.host_requirements import host_of
from rlx.planning.probing.probe import (
    Probe,
    ProbeFacts,
    ProbeResults,
    Question,
    Side,
    chips,
    folders,
    is_held_outside,
    key_values,
    number,
    root_is_settled,
)
from rlx.resources import payload_folder
from rlx.shell_reader.contained_commands import Reach

_NUMBERS = ("uid", "cpus", "memory_kib", "memory_free_kib", "shm_kib")


def parse_machine(text: str) -> dict[str, Any]:
    """Parse user, kernel, distribution, processors, memory (KiB), load; `memory_limit` in bytes, None without one."""
    facts: dict[str, Any] = dict(key_values(text))
    for key in _NUMBERS:
        facts[key] = number(facts.get(key, ""))
    limit = number(facts.get("memory_limit", ""))
    # The kernel writes "max", or a number near 2^63, where there is no limit.
    facts["memory_limit"] = limit if limit is not None and limit < 2**60 else None
    facts["load"] = [float(part) for part in facts.get("load", "").split() if re.fullmatch(r"\d{1,9}\.\d+", part)]
    facts["groups"] = facts.get("groups", "").split()
    files = facts.get("open_files", "")
    facts["open_files"] = files if files == "unlimited" else number(files)
    return facts


def parse_tools(text: str) -> dict[str, Any]:
    """Parse paths by tool, whether the options that rlx uses are known, and the version of tmux."""
    found = key_values(text)
    options = {name: found.pop(name, "") == "yes" for name in ("flock_options", "stat_format", "tail_pid")}
    return {"tmux_version": found.pop("tmux_version", None), **options, "paths": found}


def parse_disk(text: str) -> dict[str, Any]:
    """Parse by path: space in KiB, inodes, file system, whether this user may write."""
    records = re.split(r"^(?=path=)", text, flags=re.MULTILINE)
    return {"paths": [_folder(key_values(record)) for record in records if record.startswith("path=")]}


def _folder(found: dict[str, str]) -> dict[str, Any]:
    # df -P: device, total, used, free, percent, mount point.
    space, inodes = found.get("space", "").split(None, 5), found.get("inodes", "").split(None, 5)
    return {
        "path": found.get("path"),
        "existing": found.get("existing"),
        "writable": found.get("writable") == "yes",
        "type": found.get("type"),
        "total_kib": number(space[1]) if len(space) == 6 else None,
        "free_kib": number(space[3]) if len(space) == 6 else None,
        "inodes": number(inodes[1]) if len(inodes) == 6 else None,
        "free_inodes": number(inodes[3]) if len(inodes) == 6 else None,
        "mount": space[5] if len(space) == 6 else None,
    }


def parse_processes(text: str) -> dict[str, Any]:
    """Count processes and zombies, and list the parents of zombies and the raylets with their users."""
    facts: dict[str, Any] = {"total": None, "zombies": 0, "parents": [], "raylets": [], "init": ""}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "total":
            facts["total"] = number(rest.strip())
        elif word == "init":
            facts["init"] = rest.strip()[:200]
        elif word == "raylet" and (match := re.fullmatch(r"(\d{1,9}) (.*)", rest)):
            facts["raylets"].append({"pid": int(match[1]), "user": match[2].strip()})
        elif word == "zombies" and (match := re.fullmatch(r"(\d{1,9}) (\d{1,9}) ?(.*)", rest)):
            facts["zombies"] += int(match[1])
            facts["parents"].append({"pid": int(match[2]), "name": match[3], "zombies": int(match[1])})
    facts["parents"].sort(key=lambda parent: -parent["zombies"])
    return facts


def parse_shell(text: str) -> dict[str, Any]:
    """Parse the names that bash finds as functions, and whether a folder in front of its PATH stays there."""
    lines = text.splitlines()
    names = sorted(line.removeprefix("function=") for line in lines if line.startswith("function="))
    return {"functions": names, "programs": "programs=first" in lines}


MACHINE = Probe("machine", "machine.sh", parse_machine)
TOOLS = Probe("tools", "tools.sh", parse_tools)
DISK = Probe("disk", "disk.sh", parse_disk, limit_s=15)
PROCESSES = Probe("processes", "processes.sh", parse_processes, limit_s=20)
SHELL = Probe("shell", "shell.sh", parse_shell, beside=True)


def shell_question(site: Site) -> Question:
    """Ask how the bash of a user's script would find what keeps its commands within its run."""
    functions = (payload_folder() / "contained" / "functions.bash").read_text(encoding="utf-8")
    exports = "\n".join(Cmd("export", f"{name}={value}").raw() for name, value in site.env.items())
    return Question(SHELL, (functions, exports))


def reach_of(results: ProbeResults) -> Reach:
    """Return what that bash finds; nothing where it was not asked, or gave no answer."""
    found = results.environment.of("shell") if results.environment else {}
    return Reach(frozenset(found.get("functions", ())), bool(found.get("programs")))


# The programs that supervise.sh calls: the holder on the host, the supervisor in the container.
_HOST_TOOLS = ("tar", "gzip", "mktemp", "setsid", "flock", "stat", "tail", "xargs", "grep", "awk", "sed", "od")
_INSIDE_TOOLS = ("bash", "mktemp", "setsid", "stat", "grep", "od")
_GIB_IN_KIB = 1024**2
# Below the first not even a log fits; a checkpoint needs far more than the second.
_NO_SPACE_KIB, _LITTLE_SPACE_KIB = 100 * 1024, 20 * _GIB_IN_KIB
_FEW_INODES = 10_000
_MANY_ZOMBIES = 100
_LITTLE_MEMORY_SHARE = 0.1
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


def tools(results: ProbeResults) -> Iterator[Finding]:
    """Check the programs that rlx calls; rlx itself needs no Python on the host."""
    for where, side in results.sides():
        found = side.of("tools")
        if found:
            yield from _missing_tools(where, found, _needed(results, inside=side is results.inside))
    host = results.host.of("tools")
    if host and "tmux" not in host["paths"]:
        yield Finding(
            "RLX511",
            Severity.NOTE,
            "there is no tmux: runs work without it, but rlx attach does not",
            "apt-get install tmux, or yum install tmux",
            results.site.host,
        )


def _needed(results: ProbeResults, *, inside: bool) -> tuple[str, ...]:
    all_of_it = (*_HOST_TOOLS, "bash")
    if results.site.container is None:
        return all_of_it
    if is_held_outside(results):
        return _INSIDE_TOOLS if inside else _HOST_TOOLS
    return all_of_it if inside else ()


def _missing_tools(where: str, found: ProbeFacts, needed: tuple[str, ...]) -> Iterator[Finding]:
    missing = [tool for tool in needed if tool not in found["paths"]]
    if "flock" in needed and "flock" not in missing and not found["flock_options"]:
        missing.append("flock of util-linux (this one lacks -o and -E)")
    if "stat" in needed and "stat" not in missing and not found["stat_format"]:
        missing.append("stat of coreutils (this one lacks -c)")
    if missing:
        fix = "install util-linux, coreutils, tar, gzip, grep, sed, gawk, findutils and bash"
        yield Finding("RLX510", Severity.ERROR, f"missing: {', '.join(missing)}", fix, where)


def disk(results: ProbeResults) -> Iterator[Finding]:
    """Check space and inodes of every folder, and access and file system of the one that holds the runs."""
    for where, side in results.sides():
        root = results.site.container_root if side is results.inside else results.site.root
        for folder in folders(side):
            holds_runs = folder["path"] == root and (side is results.inside or root_is_settled(results))
            yield from _space(where, folder, holds_runs)
            if holds_runs:
                yield from _root(where, folder, results)


def _space(where: str, folder: ProbeFacts, holds_runs: bool) -> Iterator[Finding]:
    free, inodes, total_inodes = folder["free_kib"], folder["free_inodes"], folder["inodes"]
    if free is not None and free < _LITTLE_SPACE_KIB:
        severity = Severity.ERROR if holds_runs and free < _NO_SPACE_KIB else Severity.WARNING
        message = f"{folder['path']}: {free / _GIB_IN_KIB:.1f} GiB free on {folder['mount']}"
        yield Finding("RLX512", severity, message, "free some space, or set another root: rlx hosts add", where)
    # btrfs and others count no inodes and report 0 of 0.
    if total_inodes and inodes is not None and inodes < _FEW_INODES:
        message = f"{folder['path']}: {inodes} inodes free on {folder['mount']}"
        yield Finding("RLX512", Severity.WARNING, message, "delete small files there: df -i shows them", where)


def _root(where: str, folder: ProbeFacts, results: ProbeResults) -> Iterator[Finding]:
    if not folder["writable"]:
        user = results.host.of("machine").get("user", "this user")
        message = f"{folder['existing']}: {user} may not write there, so {folder['path']} cannot hold runs"
        yield Finding("RLX513", Severity.ERROR, message, "choose a root that you own: rlx hosts add … --root", where)
    if folder["type"] in _MEMORY_FILE_SYSTEMS:
        message = f"{folder['path']} is in memory ({folder['type']}): runs there are lost at the next restart"
        yield Finding("RLX514", Severity.WARNING, message, "choose a root on a disk: rlx hosts add … --root", where)


def clock(results: ProbeResults) -> Iterator[Finding]:
    """Warn of a wrong clock, which affects certificates and time stamps; verdicts use ages measured on the host."""
    if results.clock and (skew := results.clock.skew):
        yield Finding("RLX515", Severity.WARNING, f"the clock is {skew}", SET_CLOCK, results.site.host)


def processes(results: ProbeResults) -> Iterator[Finding]:
    for where, side in results.sides():
        found = side.of("processes")
        if found and found["zombies"] >= _MANY_ZOMBIES:
            yield _zombies(where, found, side is results.inside)
        if found and found["raylets"]:
            users = sorted({raylet["user"] or "?" for raylet in found["raylets"]})
            message = f"{len(found['raylets'])} Ray node(s) of {', '.join(users)} already run here"
            yield Finding("RLX518", Severity.NOTE, message, "nothing: a run starts its own Ray", where)


def _zombies(where: str, found: ProbeFacts, inside: bool) -> Finding:
    parents = ", ".join(
        f"{parent['zombies']} of {parent['name'] or '?'} ({parent['pid']})" for parent in found["parents"][:3]
    )
    fix = "restart the container when it is not in use, next time with --init" if inside else "end these parents"
    return Finding("RLX516", Severity.WARNING, f"{found['zombies']} zombie processes: {parents}", fix, where)


def memory_and_cpus(results: ProbeResults) -> Iterator[Finding]:
    found = results.host.of("machine")
    total, free = found.get("memory_kib"), found.get("memory_free_kib")
    if total and free is not None and free < total * _LITTLE_MEMORY_SHARE:
        message = (
            f"{free / _GIB_IN_KIB:.0f} of {total / _GIB_IN_KIB:.0f} GiB memory are free; Ray kills workers at 95 %"
        )
        yield Finding("RLX517", Severity.WARNING, message, "see who holds it: ps aux --sort=-rss", results.site.host)
    environment = results.environment
    cpus = environment.of("machine").get("cpus") if environment else None
    wanted = results.wanted
    if wanted.backend and cpus is not None:
        for problem in host_of(wanted.backend).shortage(cpus, wanted, len(chips(results.host))):
            yield Finding(problem.id, Severity.ERROR, problem.message, problem.fix, results.where)


def silence(results: ProbeResults) -> Iterator[Finding]:
    """Report the probes without an answer, since nothing is concluded from them."""
    for where, side in results.sides():
        yield from (_silent(where, side, name) for name in side.silent if name != "npu_smi")


def _silent(where: str, side: Side, name: str) -> Finding:
    message = f"the probe {name} did not answer within {side.silent[name]} s"
    return Finding("RLX520", Severity.WARNING, message, f"check the machine's load: uptime, on {where}", where)
