"""Record a further attempt of a run: for which causes it may begin, from which checkpoint, and who began it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOST = "lost"
# The causes of an end that are the fault of the machine, whatever the recipe. They are the same as `is_of_machine` in
# the rows of rlx/evidence/diagnosis, which rules on recipes do not read; a test checks that they are equal.
MACHINE_CAUSES = frozenset(
    f"RLX{number}" for number in (590, 591, 592, 805, 806, 809, 813, 877, 880, 956, 960, 961, 967, 968)
)
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files below a run's folder of checkpoints, by their paths in it.

    `sizes` in bytes; `tails`: the last 22 bytes of some in hexadecimal; `texts`: the content of small files beside the
    checkpoints.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    tails: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A checkpoint: its `folder` and its step. `lacks`: why no run may go on from it; empty if it is whole."""

    step: int
    folder: str
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Attempt `attempt`, from 2, was begun after the one before it had ended `after` ("lost"), for the reason `why`.

    `begun` is an ISO time in UTC, `by` the user and the machine. `step`: the checkpoint that it goes on from, a folder
    named `checkpoint`; 0 where it begins anew, and None where only the run's own script knows. `passed_over`: later
    checkpoints that are not whole, with the reason.
    """

    attempt: int
    after: str
    why: str
    begun: str
    by: str
    step: int | None = 0
    checkpoint: str = ""
    passed_over: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return `attempt 2 (after lost, by me@laptop) went on from the checkpoint of step 4`, a host's texts cut."""
        how = "went on from the checkpoint of step" if self.step else "began"
        where = {None: "as its script says", 0: "anew"}.get(self.step, str(self.step))
        return f"attempt {self.attempt} (after {_line(self.after)}, by {_line(self.by)}) {how} {where}"


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
