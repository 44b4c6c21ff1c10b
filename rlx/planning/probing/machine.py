"""Parse what a machine is, has and lacks: the probes that every host and every container gets."""

from __future__ import annotations

import re
from typing import Any

from rlx.planning.probing.probe import Probe, key_values, number

_NUMBERS = ("uid", "cpus", "memory_kib", "memory_free_kib", "shm_kib")


def parse_machine(text: str) -> dict[str, Any]:
    """User, kernel, distribution, processors, memory (KiB), load; `memory_limit` in bytes, None without one."""
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
    """Path by tool, whether the options that rlx uses are known, and the version of tmux."""
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
    """Count processes and zombies, and name whose children the zombies are, and the raylets with their users."""
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


MACHINE = Probe("machine", "machine.sh", parse_machine)
TOOLS = Probe("tools", "tools.sh", parse_tools)
DISK = Probe("disk", "disk.sh", parse_disk, limit_s=15)
PROCESSES = Probe("processes", "processes.sh", parse_processes, limit_s=20)
