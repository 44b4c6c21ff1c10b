"""Files of rlx that travel with a run, flat into payload/ of its directory: modules, weight records, Ray's settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rlx.model import PlannedFile
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

SWITCH = "RLX_WEIGHT_RECORDS"
_OFF = "off"
_PAYLOAD, _WRITER = "rlx_weights", "rlx_aqn_events.py"
JOB_ENVIRONMENT = "rlx_ray_job.py"
"""Gives the workers of a Ray that is there the environment of the run."""
# Ray starts in seconds; a machine under load or with a slow disk takes longer.
READY_WITHIN_S = 120


def modules(part: str, folder: Path | None = None) -> tuple[PlannedFile, ...]:
    """Return the payload's modules whose names begin with `part`, from a back-end's `folder` or the common one."""
    return tuple(map(_planned, sorted((folder or payload_folder()).glob(f"{part}*.py"))))


def program(name: str, folder: Path | None = None) -> PlannedFile:
    return _planned((folder or payload_folder()) / name)


def _planned(path: Path) -> PlannedFile:
    return PlannedFile(f"{PAYLOAD_DIR}/{path.name}", path.read_text(encoding="utf-8"))


def contained() -> Iterator[PlannedFile]:
    """Yield what keeps the commands of a user's script within its run."""
    folder = payload_folder()
    for path in sorted((folder / "contained").rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            text, mode = path.read_text(encoding="utf-8"), 0o700 if path.parent.name == "bin" else 0o600
            yield PlannedFile(f"{PAYLOAD_DIR}/{path.relative_to(folder)}", text, mode)


def is_recorded(env: Mapping[str, str]) -> bool:
    """Tell whether a run with these variables records its weights: unless it is switched off."""
    return env.get(SWITCH) != _OFF


def weight_files() -> tuple[PlannedFile, ...]:
    return *modules(_PAYLOAD), program(_WRITER)


@dataclass(frozen=True, slots=True)
class RaySettings:
    """Resources by Ray's names: what each node declares (nothing: what Ray finds), and what must be there.

    `object_store_memory` is in bytes, None for Ray's own choice. `waiting` and `fix` end the message about what is
    missing after `ready_within_s` seconds.
    """

    offers: Mapping[str, int]
    each_node: Mapping[str, int]
    all_nodes: Mapping[str, int]
    waiting: str
    fix: str
    object_store_memory: int | None = None
    ready_within_s: int = READY_WITHIN_S

    def files(self) -> Iterator[PlannedFile]:
        """Yield the program that runs this node's Ray, and its settings."""
        yield from modules("rlx_ray")
        yield PlannedFile(f"{PAYLOAD_DIR}/rlx_ray.json", json.dumps(asdict(self), indent=1) + "\n")
