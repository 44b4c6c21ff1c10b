"""Name runs that are shown together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.runs import RunRef


def run_labels(refs: Sequence[RunRef]) -> dict[str, str]:
    """Run id -> the shortest name that tells the shown runs apart: arm, else arm and seed, else the id."""
    if len({ref.arm for ref in refs}) == len(refs):
        return {ref.run_id: ref.arm for ref in refs}
    if len({(ref.arm, ref.seed) for ref in refs}) == len(refs):
        return {ref.run_id: ref.short_name for ref in refs}
    return {ref.run_id: ref.run_id for ref in refs}
