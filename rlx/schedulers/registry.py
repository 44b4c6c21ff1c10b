"""Register the schedulers by name, and load what one of them knows when it is asked for.

A leaf: every package may ask it, and none imports a scheduler. What is asked for is a module of a fixed name in the
scheduler's folder; rlx/schedulers/protocol.py says what each must hold. Another distribution adds a scheduler by an
entry point of the group `rlx.schedulers` that names its package. It is loaded only where a host's entry or a run names
it, so that a broken one costs the host that needs it, and nothing else.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.plug_ins import load, plug_ins
from rlx.resources import payload_below

if TYPE_CHECKING:
    from rlx.model import BatchScheduler

GROUP = "rlx.schedulers"
LEASES = "leases"
PACKAGES = {
    LEASES: "rlx.schedulers.leases",
    "slurm": "rlx.schedulers.slurm",
    "ray": "rlx.schedulers.ray",
}
"""The schedulers that come with rlx. Leases are those of every host that names no other."""


def name_of(batch: BatchScheduler | None) -> str:
    """Return the name of the scheduler of a host or site."""
    return batch.scheduler if batch else LEASES


def is_batch_scheduler(name: str) -> bool:
    """Return whether a key of a host's entry names a batch scheduler, without loading it."""
    return name != LEASES and (name in PACKAGES or name in plug_ins(GROUP))


def batch_schedulers() -> tuple[str, ...]:
    """List the batch schedulers that come with rlx. Another distribution's are found by their names only."""
    return tuple(name for name in PACKAGES if name != LEASES)


def part(name: str, module: str) -> ModuleType:
    """Import one module of a scheduler, such as `entry`.

    Raises UsageError for an unknown scheduler, RlxError for one of another distribution that cannot be loaded.
    """
    package = PACKAGES.get(name) or plug_ins(GROUP).get(name)
    if package is None:
        raise _unknown(name)
    wanted = f"{package}.{module}"
    return import_module(wanted) if name in PACKAGES else load(GROUP, name, wanted)


def check_batch_scheduler(name: str) -> None:
    """Raise UsageError for a name that is none, as a run on a host may hold."""
    if not is_batch_scheduler(name):
        raise _unknown(name)


def _unknown(name: str) -> UsageError:
    known = ", ".join(batch_schedulers())
    return UsageError(
        f"rlx has no scheduler {name!r}", f"use one of {known}, or install what brings it (entry point {GROUP})"
    )


def shell_parts(name: str) -> list[Path]:
    """Return the parts of supervise.sh in the scheduler's folder. Raises as `part` does."""
    folder = Path(__file__).with_name(name) if name in PACKAGES else Path(str(part(name, "entry").__file__)).parent
    return sorted(payload_below(folder).glob("[0-9]*.sh"))
