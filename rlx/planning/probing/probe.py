"""Define probes, which are questions to a machine with parsers for the answers, and the results of a query."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from rlx.hosts.clock import Clock
from rlx.hosts.script_parts import slim
from rlx.model import Site
from rlx.planning.host_requirements import HostRequirements

# What a probe found: plain JSON values, which can be printed, compared and sent.
ProbeFacts = Mapping[str, Any]

_SCRIPTS = Path(__file__).with_name("scripts")


@dataclass(frozen=True, slots=True)
class Probe:
    """A question to a machine, as a script for sh, and the parser of its answer.

    `script` is a file in scripts/ or a path. `parse` never raises, whatever the output is. `limit_s`: seconds to wait
    for the answer. `beside`: a slow probe that uses no device and runs beside the others. `asks_devices`: it uses
    drivers of devices, which answer one request at a time.
    """

    name: str
    script: str | Path
    parse: Callable[[str], dict[str, Any]]
    limit_s: int = 10
    # Whether the probe needs bash, as launch scripts do, because of CANN's scripts.
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
    """The answers of the host itself or of the container. `silent`: probes without an answer in time."""

    facts: Mapping[str, ProbeFacts] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)

    def of(self, probe: str) -> ProbeFacts:
        return self.facts.get(probe, {})


def script(name: str | Path) -> str:
    """Return the text of a file in scripts/ or elsewhere, as it is sent."""
    path = _SCRIPTS / name
    text = path.read_text(encoding="utf-8")
    return slim(text).decode() if path.suffix == ".sh" else text


def key_values(text: str) -> dict[str, str]:
    """Read `key=value` lines; empty values and other lines are ignored."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value.strip() for key, equals, value in pairs if equals and value.strip()}


def number(text: str) -> int | None:
    """Read a whole number, or None. `int()` would accept underscores, other scripts' digits and 10^9 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the lines that are JSON objects; programs may print others in between."""
    found = (_json(line) for line in text.splitlines() if line.startswith("{"))
    return [value for value in found if isinstance(value, dict)]


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def last_line(text: str) -> str:
    """Return the last line of a program, which usually explains why it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """The results of one query: what the checks judge and `rlx doctor` prints.

    `inside`: the answers from the container; None if there is none or it could not be entered. `entry`: why not.
    """

    site: Site
    wanted: HostRequirements
    host: Side
    inside: Side | None = None
    clock: Clock | None = None
    entry: str | None = None

    @property
    def environment(self) -> Side | None:
        """The side where the run would train; None if it cannot be queried, like the image of a job."""
        if self.site.job_image is not None:
            return None
        return self.host if self.site.container is None else self.inside

    @property
    def where(self) -> str:
        """The name of that side in messages."""
        return f"container {self.site.container}" if self.site.container else self.site.host

    def sides(self) -> list[tuple[str, Side]]:
        """Return (name, side) of all sides that were queried."""
        found = [(self.site.host, self.host)]
        return [*found, (self.where, self.inside)] if self.inside else found


def folders(side: Side) -> list[ProbeFacts]:
    return side.of("disk").get("paths") or []


def chips(side: Side | None) -> list[dict[str, Any]]:
    return (side.of("npu_smi").get("chips") or []) if side else []


# As in locate.sh: a mount from there is part of a system.
_SYSTEM = ("/dev", "/proc", "/sys", "/etc", "/usr", "/run", "/var/run", "/boot", "/lib", "/lib64", "/bin", "/sbin")


def shared_folders(results: ProbeResults) -> list[PurePosixPath]:
    """Return the folders that the host shares with the container and that could hold runs."""
    # Only root can read the folders of Docker's volumes.
    kinds = ("bind", "volume") if results.host.of("machine").get("uid") == 0 else ("bind",)
    mounts = results.host.of("container").get("mounts") or ()
    sources = [PurePosixPath(mount["source"]) for mount in mounts if mount["writable"] and mount["type"] in kinds]
    return [source for source in sources if not _is_system(source)]


def _is_system(folder: PurePosixPath) -> bool:
    return folder == PurePosixPath("/") or any(folder.is_relative_to(system) for system in _SYSTEM)


def shares_root(results: ProbeResults) -> bool:
    """Return whether the container has the folder that the site names for the runs."""
    root, home = results.site.root, results.host.of("machine").get("home", "")
    path = PurePosixPath(home + root[1:] if root.startswith("~") else root)
    return any(path.is_relative_to(folder) for folder in shared_folders(results))


def root_is_settled(results: ProbeResults) -> bool:
    """Return whether runs are certainly below the site's root on the host.

    For a container without a chosen root, a launch uses a shared folder, or a folder inside if none is shared.
    """
    site = results.site
    if site.container is None or site.place.inside is not None:
        return site.container is None
    return site.container_root is not None or (site.root != Site().root and shares_root(results))


def is_held_outside(results: ProbeResults) -> bool:
    """Return whether the holder of a run is on the host; without a shared folder it is in the container."""
    site = results.site
    if site.container is None or site.place.inside is not None:
        return site.container is None
    return site.container_root is not None or bool(shared_folders(results))
