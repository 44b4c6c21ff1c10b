"""Name the runs of an experiment that a comparison is not about: a run left out afterwards is a run chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby


class LeftOutBy(StrEnum):
    """Who left a run out."""

    COMMAND_LINE = "this command line"
    NEWEST_LAUNCH = "the rule that a name means its newest launch"
    ONE_LAUNCH = "the rule that all names mean runs of one launch"
    REGISTRATION = "the registration"
    REMOVAL = "whoever removed it"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run with the name of a compared experiment. `launched`: seconds since 1970; `state`: as last seen, "" if never.

    `why`: what `by` did, in words.
    """

    run_id: str
    name: str
    arm: str
    seed: int
    state: str
    launch_id: str
    launched: float
    by: LeftOutBy
    why: str

    @property
    def moment(self) -> str:
        """When it was launched, in UTC, for a comparison is read elsewhere."""
        import time

        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.launched))


def left_out_sentence(runs: Sequence[LeftOut]) -> str:
    """`3 runs of tiny-cpu are not in this comparison: …`; "" where none is."""
    if not runs:
        return ""
    names = " and ".join(sorted({run.name for run in runs}))
    count = f"{len(runs)} runs of {names} are" if len(runs) > 1 else f"1 run of {names} is"
    return f"{count} not in this comparison: a run left out after its values were seen is a run chosen"


def left_out_groups(runs: Sequence[LeftOut]) -> Iterator[str]:
    """One line for each launch, arm and reason: `aqn, seeds 1 (finished) and 3 (failed), launched …: why`."""

    def alike(run: LeftOut) -> tuple[str, str, str]:
        return run.launch_id, run.arm, run.why

    for _, group in groupby(sorted(runs, key=lambda run: (*alike(run), run.seed)), alike):
        found = [*group]
        seeds = ", ".join(f"{run.seed} ({run.state or 'never seen'})" for run in found)
        yield (
            f"{found[0].arm}, seed{'s' if len(found) > 1 else ''} {seeds}, launched {found[0].moment} as "
            f"{found[0].launch_id}: left out by {found[0].by}; {found[0].why}"
        )
