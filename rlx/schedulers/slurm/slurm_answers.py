"""Parse what Slurm says on a login node: its programs, the nodes of a partition, and whether it would take a job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rlx.preflight.probing.probe import Probe, number
from rlx.resources import payload_below

_DEVICES = re.compile(r"(?:^|,)([A-Za-z]\w*)(?::([\w.-]*[A-Za-z][\w.-]*))?:(\d{1,4})")
_STATE = re.compile(r"\bState=(\S+)")
_MOST_CHARACTERS = 300
_TEXTS = ("version", "state", "silence", "unaccounted", "refusal")


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
