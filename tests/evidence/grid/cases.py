"""The edited runs of the grid as they are declared, and the cells that cannot be filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlx.model import Link
from tests.evidence.grid.run_pair import RunPair

Edit = Callable[[RunPair], None]


class Source(StrEnum):
    """The part of a run directory that an edit changes; `manifest` with what was found and composed at the launch."""

    EVENTS = "events"
    METRICS = "metrics"
    LOG = "log"
    OUTPUTS = "outputs"
    MANIFEST = "manifest"


class Direction(StrEnum):
    CAUGHT = "caught"
    HONEST = "honest"
    UNSEEN = "cannot be seen"


@dataclass(frozen=True, slots=True)
class EditedRun:
    """An edited run, and what must be said of it.

    `status` and `ids`: the verdict, and the findings that must be among its own; for an honest run `valid` and none.
    `twin`: the honest run that is nearest to one that is caught. `why`: what hides an edit that cannot be seen.
    `edit`: on a copy of the recorded pair `base`; None: a folder of tests/cases/evidence of that name.
    """

    name: str
    source: Source
    link: Link
    direction: Direction
    status: str
    ids: tuple[str, ...] = ()
    twin: str = ""
    why: str = ""
    base: str = ""
    edit: Edit | None = None


PROBED, FIRST_EDITION = "probed", "tiny-cpu"
"""The recorded pairs of tests/cases/pairs: by this rlx, and by rlx 0.1.0."""
_declared: list[EditedRun] = []


def caught(source: Source, link: Link, status: str, *ids: str, twin: str, base: str = PROBED) -> Callable[[Edit], Edit]:
    """Declare an edit that must be seen through, with this status and these findings."""

    def declare(edit: Edit) -> Edit:
        _declared.append(
            EditedRun(_name(edit), source, link, Direction.CAUGHT, status, ids, twin, base=base, edit=edit)
        )
        return edit

    return declare


def honest(source: Source, link: Link, base: str = PROBED) -> Callable[[Edit], Edit]:
    """Declare an edit as honest runs have it, which must not be accused."""

    def declare(edit: Edit) -> Edit:
        _declared.append(EditedRun(_name(edit), source, link, Direction.HONEST, "valid", base=base, edit=edit))
        return edit

    return declare


def unseen(source: Source, link: Link, why: str, base: str = PROBED) -> Callable[[Edit], Edit]:
    """Declare an edit that nothing in the evidence tells from an honest run."""

    def declare(edit: Edit) -> Edit:
        _declared.append(EditedRun(_name(edit), source, link, Direction.UNSEEN, "valid", why=why, base=base, edit=edit))
        return edit

    return declare


def declared() -> Sequence[EditedRun]:
    """The edits that the imported modules declare, in their order."""
    return tuple(_declared)


def _name(edit: Edit) -> str:
    return str(getattr(edit, "__name__", "")).replace("_", "-")
