"""Slurm: how runs are submitted on a host that is a login node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Slurm:
    """A partition, and what a job of it asks for.

    `gres` is the kind of device as Slurm writes it, with its type if it has one, and how many a node has (`npu:8`,
    `npu:910b3:8`); None for jobs without devices. `options` are further settings by their names in the file of hosts;
    `warn` are the seconds before its time limit at which a run is told to end.
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
