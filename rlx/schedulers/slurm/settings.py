"""Describe the settings of Slurm in a host's entry: how runs are submitted there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlx.model import BatchScheduler, Site, from_jsonable, to_jsonable

NAME = "slurm"


@dataclass(frozen=True, slots=True)
class Slurm:
    """A partition, and what a job of it asks for.

    `gres` is the kind of device as Slurm writes it, with its type if it has one, and how many a node has (`npu:8`,
    `npu:910b3:8`); None for jobs without devices. `options` are further settings by their names in the file of hosts;
    `warn` are the seconds before its time limit at which a run is asked to end.
    """

    partition: str
    gres: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    warn: int = 60

    @property
    def device(self) -> tuple[str, int] | None:
        """The kind of device as rlx calls it, and how many a node has."""
        if self.gres is None:
            return None
        name, _, rest = self.gres.partition(":")
        return _KINDS.get(name, name), int(rest.rpartition(":")[2])

    def gres_of(self, count: int) -> str | None:
        """Ask for this many devices a node: `npu:910b3:4`."""
        return self.gres and f"{self.gres.rpartition(':')[0]}:{count}"


_KINDS = {"gpu": "cuda"}


def settings_of(settings: Mapping[str, Any]) -> Slurm:
    """Read the settings of an entry or a plan. Raises UsageError for what is none, as a plan from a file may hold."""
    return from_jsonable(Slurm, dict(settings), NAME)


def slurm_of(site: Site) -> Slurm:
    """Return the settings of a site whose scheduler is Slurm. Raises UsageError as `settings_of` does."""
    return settings_of(site.batch.settings if site.batch else {})


def batch_of(slurm: Slurm) -> BatchScheduler:
    """Return the settings as a host and a site hold them."""
    return BatchScheduler(NAME, to_jsonable(slurm))
