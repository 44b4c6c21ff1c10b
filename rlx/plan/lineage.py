"""Record where a further attempt of a run comes from, before it begins."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST = 200


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
        """`attempt 2 (after lost, by me@laptop) went on from the checkpoint of step 4`; texts of a host are cut."""
        how = "went on from the checkpoint of step" if self.step else "began"
        where = {None: "as its script says", 0: "anew"}.get(self.step, str(self.step))
        return f"attempt {self.attempt} (after {_line(self.after)}, by {_line(self.by)}) {how} {where}"


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
