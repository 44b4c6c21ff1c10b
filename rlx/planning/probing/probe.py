"""A probe: a question to a machine and how its answer is read. Both are data: neither knows how the other travels."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlx.hosts.script_parts import slim

# What a probe found out: plain JSON values, so that they print, compare and travel as they are.
Facts = Mapping[str, Any]

_SCRIPTS = Path(__file__).with_name("scripts")


@dataclass(frozen=True, slots=True)
class Probe:
    """`script` is a file in scripts/, or the path of one elsewhere, run by sh with arguments. `parse` never raises,
    whatever the output is.

    `limit_s`: seconds after which the answer is not waited for. `beside`: it takes long and asks no device, so that the
    others are asked meanwhile. `asks_devices`: their drivers answer one at a time.
    """

    name: str
    script: str | Path
    parse: Callable[[str], dict[str, Any]]
    limit_s: int = 10
    # Whether the probe needs the shell that launch scripts need: CANN's scripts are written for bash.
    bash: bool = False
    beside: bool = False
    asks_devices: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A probe with its arguments."""

    probe: Probe
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """The answers of one machine: the host itself, or the container. `silent`: probes that gave none in time."""

    facts: Mapping[str, Facts] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)

    def of(self, probe: str) -> Facts:
        return self.facts.get(probe, {})


def script(name: str | Path) -> str:
    """The text of a file in scripts/, or of any other, as it travels."""
    path = _SCRIPTS / name
    text = path.read_text(encoding="utf-8")
    return slim(text).decode() if path.suffix == ".sh" else text


def key_values(text: str) -> dict[str, str]:
    """`key=value` lines; empty values and other lines are left out."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value.strip() for key, equals, value in pairs if equals and value.strip()}


def number(text: str) -> int | None:
    """A whole number, or None. Not `int()`: that takes underscores, other scripts' digits and 10^9 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def json_objects(text: str) -> list[dict[str, Any]]:
    """The lines that are JSON objects; programs may print others in between."""
    found = (_json(line) for line in text.splitlines() if line.startswith("{"))
    return [value for value in found if isinstance(value, dict)]


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def last_line(text: str) -> str:
    """Return what a program said last: usually why it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
