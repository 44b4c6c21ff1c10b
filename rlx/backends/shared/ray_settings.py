"""Write the settings of payload/rlx_ray.py: the Ray that a run needs on its nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from rlx.backends.shared.payload_files import modules
from rlx.model import PlannedFile
from rlx.model.run_dir import PAYLOAD_DIR

# Ray starts in seconds; a machine under load or with a slow disk takes longer.
READY_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class RaySettings:
    """Resources by Ray's names: what each node says it has (nothing: what Ray finds), and what must be there.

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
        """The program that holds this node's Ray, and its settings."""
        yield from modules("rlx_ray")
        yield PlannedFile(f"{PAYLOAD_DIR}/rlx_ray.json", json.dumps(asdict(self), indent=1) + "\n")
