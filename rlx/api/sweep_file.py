"""Keep the plans of a sweep in rlx's home, so that a block can be planned anew for another host of it."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError, UsageError
from rlx.local_files import bounded, open_regular, parse_json
from rlx.model import LaunchPlan, from_jsonable, to_jsonable

if TYPE_CHECKING:
    from rlx.api.plans import Plans

_MOST_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep as it was dealt. `hosts`, `container` and `devices` as typed; `plans` by seed and arm.

    `watched`: by arm, the noise of another arm that is watched for in it. `widths`: by host, how many runs fit there.
    """

    hosts: tuple[str, ...]
    container: str | None
    devices: str | None
    widths: Mapping[str, int]
    watched: Mapping[str, Any]
    plans: Mapping[tuple[int, str], LaunchPlan]


def sweep_folder(home: Path) -> Path:
    """Where they lie; without it nobody has launched one."""
    return home / "sweeps"


def keep_sweep(home: Path, plans: Plans) -> None:
    """Write it down before anything is shipped; of a launch that is brought to its end the first one stays.

    Raises RlxError.
    """
    deal = plans.deal
    if deal is None:
        return
    path = _path(home, deal.asked)
    document = {
        "hosts": deal.hosts,
        "container": deal.container,
        "devices": deal.devices,
        "widths": {room.host: room.width for room in deal.rooms},
        "watched": deal.watched,
        "plans": to_jsonable(plans.plans),
    }
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and not deal.is_new:
            return
        scratch.write_bytes(gzip.compress(json.dumps(document).encode(errors="surrogateescape"), 6))
        scratch.chmod(0o600)
        scratch.replace(path)
    except OSError as error:
        raise RlxError(
            f"{path}: {error.strerror}", "rlx keeps there what it needs to move runs to a free host"
        ) from None


def read_sweep(home: Path, asked: str) -> SweepFile | None:
    """Read the sweep that was asked for in these words; None where there is none, or it cannot be read."""
    with suppress(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, UsageError):
        with open_regular(_path(home, asked)) as packed, gzip.open(packed) as file:
            document = parse_json(bounded(file, _MOST_BYTES))  # type: ignore[arg-type]
        plans = [from_jsonable(LaunchPlan, plan, "plan") for plan in document["plans"]]
        return SweepFile(
            hosts=tuple(document["hosts"]),
            container=document["container"],
            devices=document["devices"],
            widths=dict(document["widths"]),
            watched=dict(document["watched"]),
            plans={(plan.seed, plan.arm): plan for plan in plans},
        )
    return None


def _path(home: Path, asked: str) -> Path:
    return sweep_folder(home) / f"{asked}.json.gz"


@contextmanager
def only_one(home: Path, *, wait: bool) -> Iterator[bool]:
    """Launch or move a sweep as the only rlx of this home; False where another one is at it and nobody is to `wait`."""
    folder = sweep_folder(home)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
