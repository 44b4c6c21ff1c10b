"""Ask a login node of Slurm what a launch needs, parse what its programs say, and conclude from that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlx.model import Finding, Severity, Site
from rlx.planning.probing.probe import Probe, ProbeFacts, ProbeResults, Question, folders, number
from rlx.resources import payload_below
from rlx.schedulers.slurm.entry import sbatch_options
from rlx.schedulers.slurm.settings import Slurm, slurm_of

_NEEDED = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
_AWAY = ("down", "drain", "fail", "maint", "unk", "boot", "power", "inval", "future")
_LOCAL_FILE_SYSTEMS = frozenset({"ext2/ext3", "ext4", "xfs", "btrfs", "zfs", "overlayfs", "tmpfs", "ramfs"})
_ENTRY = "correct slurm in the entry of this host: rlx hosts show {} names the file"
_DEVICES = re.compile(r"(?:^|,)([A-Za-z]\w*)(?::([\w.-]*[A-Za-z][\w.-]*))?:(\d{1,4})")
_STATE = re.compile(r"\bState=(\S+)")
_MOST_CHARACTERS = 300
_TEXTS = ("version", "state", "silence", "unaccounted", "refusal")


def questions(site: Site) -> list[Question]:
    """Ask Slurm, with what a job of the host's entry asks for."""
    slurm = slurm_of(site)
    gres = [f"--gres={slurm.gres}"] if slurm.gres else []
    return [Question(SLURM, (slurm.partition, *gres, *sbatch_options(slurm)))]


def rows(results: ProbeResults) -> Iterator[tuple[str, str]]:
    """Return the version of Slurm and the state of the partition."""
    if not (found := results.host.of(SLURM.name)):
        return
    yield "Slurm", found["silence"] or found["version"] or "not here"
    states = Counter(node["state"] for node in found["nodes"])
    nodes = ", ".join(f"{count} {state}" for state, count in states.items()) or "no node"
    yield "partition", f"{slurm_of(results.site).partition} ({found['state'] or 'unknown'}): {nodes}"


def findings(results: ProbeResults) -> Iterator[Finding]:
    """Return whether jobs can be submitted, and whether the partition has what they ask for."""
    yield from _slurm(results)
    yield from _shared_root(results)
    yield from _own_container(results)


def _slurm(results: ProbeResults) -> Iterator[Finding]:
    wanted, found, host = slurm_of(results.site), results.host.of(SLURM.name), results.site.host
    if not found:
        return
    if missing := [tool for tool in _NEEDED if tool not in found["tools"]]:
        message = f"missing on the PATH of a command over ssh: {', '.join(missing)}"
        yield Finding("RLX595", Severity.ERROR, message, "name a login node of Slurm, or set PATH in ~/.bashrc", host)
        return
    if found["silence"]:
        fix = "scontrol ping, on the host; its administrator knows more"
        yield Finding("RLX595", Severity.ERROR, f"Slurm does not answer: {found['silence']}", fix, host)
        return
    if unaccounted := found["unaccounted"] or ("" if "sacct" in found["tools"] else "there is no sacct"):
        message = f"no accounting ({unaccounted}): of a run that was killed, Slurm's reason is known for minutes only"
        yield Finding("RLX595", Severity.NOTE, message, "nothing: the run's own record of its end counts first", host)
    yield from _partition(wanted, found, host)
    yield from _devices(results, wanted, found)
    yield from _nodes(results, wanted, found)


def _partition(wanted: Slurm, found: ProbeFacts, host: str) -> Iterator[Finding]:
    usable = [node for node in found["nodes"] if not _is_away(node)]
    if found["nodes"] and not usable:
        reasons = ", ".join(f"{node['name']} {node['state']}" for node in found["nodes"][:5])
        message = f"no node of the partition {wanted.partition} can take a job now: {reasons}"
        yield Finding("RLX596", Severity.WARNING, message, "runs wait; sinfo -R, on the host, says why", host)
    if found["state"] not in ("", "UP"):
        message = f"the partition {wanted.partition} is {found['state']}"
        yield Finding("RLX596", Severity.WARNING, message, "runs wait until it is up, or are refused", host)
    if found["refusal"]:
        # It counts only nodes that can take a job now; a job that waits for the others may still be submitted.
        is_sure = len(usable) == len(found["nodes"]) and found["state"] in ("", "UP")
        severity = Severity.ERROR if is_sure else Severity.WARNING
        message = f"Slurm would not take such a job now: {found['refusal']}"
        yield Finding("RLX597", severity, message, _ENTRY.format(host), host)


def _is_away(node: ProbeFacts) -> bool:
    return node["state"].endswith("*") or any(node["state"].startswith(word) for word in _AWAY)


def _devices(results: ProbeResults, wanted: Slurm, found: ProbeFacts) -> Iterator[Finding]:
    device = results.wanted.device
    if wanted.gres is None or device == "cpu" or not found["nodes"]:
        return
    name = wanted.gres.rpartition(":")[0]
    most = max(_count(node, name) for node in found["nodes"])
    needed = results.wanted.devices or int(wanted.gres.rpartition(":")[2])
    if most < needed:
        message = f"a job asks for {needed} × {name}, and no node of {wanted.partition} has more than {most}"
        severity = Severity.ERROR if results.wanted.devices else Severity.WARNING
        yield Finding("RLX598", severity, message, _ENTRY.format(results.site.host), results.site.host)


def _nodes(results: ProbeResults, wanted: Slurm, found: ProbeFacts) -> Iterator[Finding]:
    """Slurm takes a job that asks for more nodes than there are, and lets it wait."""
    needed, there = results.wanted.nodes, {node["name"] for node in found["nodes"]}
    if there and len(there) < needed:
        message = f"a run asks for {needed} nodes, and {wanted.partition} has {len(there)}"
        fix = "change layout.nodes, or name another partition (slurm in the entry of this host)"
        yield Finding("RLX598", Severity.ERROR, message, fix, results.site.host)


def _count(node: ProbeFacts, name: str) -> int:
    """Count the devices of this kind, or of all types of it where the entry names none."""
    kinds = node["devices"].items()
    return sum(count for kind, count in kinds if kind == name or kind.partition(":")[0] == name)


def _own_container(results: ProbeResults) -> Iterator[Finding]:
    """Report that the content of the image is not known, since no node is asked."""
    image, host = results.site.job_image, results.site.host
    if image is None:
        return
    message = f"each job makes a container of {image.name} on its node: its content is not known here"
    fix = f"docker image inspect {image.name}, on a node; docker pull it on each, since rlx fetches none"
    yield Finding("RLX589", Severity.NOTE, message, fix, host)


def _shared_root(results: ProbeResults) -> Iterator[Finding]:
    """Return whether the nodes can see the runs, by the kind of file system alone: no node is asked."""
    site = results.site
    for folder in folders(results.host):
        if folder["path"] == site.root and folder["type"] in _LOCAL_FILE_SYSTEMS:
            message = f"{site.root} is on {folder['type']} of the login node: other nodes may not have it"
            fix = "choose a root on the cluster's file system: rlx hosts add … --root"
            yield Finding("RLX599", Severity.WARNING, message, fix, site.host)


def parse_slurm(text: str) -> dict[str, Any]:
    """Tools by path, version, state of the partition, its nodes, and what `sbatch --test-only` answered.

    `silence`: why Slurm did not answer; `unaccounted`: why its accounting did not; `refusal`: why it would not take
    such a job. A node has `devices` by kind.
    """
    facts: dict[str, Any] = {"tools": {}, "nodes": [], **dict.fromkeys(_TEXTS, "")}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        rest = rest.strip()[:_MOST_CHARACTERS]
        if word == "tool" and "=" in rest:
            name, _, path = rest.partition("=")
            facts["tools"][name] = path
        elif word == "version":
            facts["version"] = rest
        elif word == "partition":
            facts["state"] = match[1] if (match := _STATE.search(line)) else ""
        elif word == "node" and rest.count("|") >= 3:
            facts["nodes"].append(_node(*rest.split("|", 3)))
        elif word == "silent":
            facts["silence"] = rest or "no reason given"
        elif word == "unaccounted":
            facts["unaccounted"] = rest or "no answer"
        elif word == "test":
            code, _, said = rest.partition(" ")
            facts["refusal"] = "" if code == "0" else said or f"sbatch --test-only ended with {code}"
    return facts


def _node(name: str, state: str, gres: str, reason: str) -> dict[str, Any]:
    devices = {
        found[0] + (f":{found[1]}" if found[1] else ""): number(found[2]) or 0 for found in _DEVICES.findall(gres)
    }
    return {"name": name, "state": state, "devices": devices, "reason": "" if reason == "none" else reason}


SLURM = Probe("slurm", payload_below(Path(__file__).parent) / "probe.sh", parse_slurm, limit_s=25)
