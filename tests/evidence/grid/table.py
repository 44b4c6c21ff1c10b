"""The grid as a table: all edited runs, the cells that cannot be filled, and what honest runs look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from rlx.model import Link

# Each module declares its edits where it is imported.
from tests.evidence.grid import events, log, manifest, metrics, outputs  # noqa: F401
from tests.evidence.grid.cases import Direction, EditedRun, Source, declared
from tests.evidence.grid.folders import Cell, folder_runs
from tests.evidence.grid.judged import Outcome

_OUTPUTS = (
    "the answers that are kept are those of validations, which run on clean weights: they say nothing of the noise on "
    "rollouts"
)
EMPTY: Mapping[Cell, str] = {
    (Source.EVENTS, Link.TRAINED_ON): "the records end where the engine serves: what the trainer made of the samples "
    "is not in them",
    **dict.fromkeys(((Source.OUTPUTS, link) for link in (Link.ASKED, Link.REACHED, Link.DRAWN, Link.FELT)), _OUTPUTS),
}
"""The cells without an edit that could be caught, and why there can be none."""

VARIANTS: Mapping[str, str] = {
    "resumed from a checkpoint": "resumed-from-a-checkpoint",
    "resumed, known by its logs alone": "resumed",
    "two replicas": "probed-second-replica",
    "two data-parallel shards": "chain-two-shards",
    "two tensor ranks": "probed-rank-like-the-other",
    "on another node than planned": "process-on-another-node",
    "in bfloat16": "probed-aqn-bfloat16",
    "a gap as of bfloat16, with drift": "gap-above-the-floor-of-bfloat16",
    "a gap with drift": "gap-with-a-drift",
    "a gap with an outlier": "gap-with-an-outlier",
    "a clock that jumps back": "clock-that-jumps-back",
    "a log rounded to three decimals": "log-rounded-to-three-decimals",
    "a log whose lines about noise are lost": "lines-about-noise-lost",
    "a log without a metrics file": "log-without-a-metrics-file",
    "several syncs a step": "several-syncs-a-step",
    "records written twice": "chain-lines-twice",
    "a killed process whose last record is lost": "last-record-lost",
    "a probe that misses a look": "probe-that-misses-one-look",
    "a device that does not repeat itself": "probe-on-a-device-that-does-not-repeat-itself",
    "an engine that gives its weights away between syncs": "probed-engine-that-sleeps",
    "a model with pictures around its layers": "layers-below-a-wrapper",
    "factors on sigma by layer": "chain-factors-as-planned",
    "a last stage that rounding takes": "last-stage-rounded-away",
    "noise in the validation, declared": "probed-noise-in-validation-as-declared",
    "rejection that does not look at the noise": "rejection-that-takes-clean-samples-as-well",
    "bypass": "recorded-bypass",
    "a loss that is lost at one step": "loss-lost-at-one-step",
    "a fork, by its log": "fork-full-sync",
    "a run of the first edition": "plan-of-the-first-edition",
}
"""What honest runs look like, and the run that stands for it."""

_HEAD = "| source | link | edited run | direction | must be | is | nearest honest run |"


@cache
def grid() -> Mapping[str, EditedRun]:
    """All edited runs by name. Raises ValueError where two have one name."""
    runs = [*declared(), *folder_runs()]
    named = {run.name: run for run in runs}
    if len(named) < len(runs):
        raise ValueError("two edited runs have one name")
    return named


def cells() -> Iterator[Cell]:
    return ((source, link) for source in Source for link in Link)


def in_cell(cell: Cell, direction: Direction) -> list[EditedRun]:
    return [run for run in grid().values() if (run.source, run.link) == cell and run.direction is direction]


def is_as_declared(run: EditedRun, outcome: Outcome) -> bool:
    """Tell whether what was said is what must be said; an honest run must not be accused of anything."""
    if run.direction is not Direction.CAUGHT:
        return not outcome.is_accused
    return outcome.is_accused and outcome.status == run.status and set(run.ids) <= set(outcome.ids)


def overview() -> str:
    """How many edited runs each cell has."""
    lines = [f"| source | {' | '.join(Link)} |", "|---" * (1 + len(Link)) + "|"]
    lines += [f"| {source} | {' | '.join(_counts((source, link)) for link in Link)} |" for source in Source]
    return "\n".join(lines)


def _counts(cell: Cell) -> str:
    numbers = [(len(in_cell(cell, direction)), direction) for direction in Direction]
    shown = ", ".join(f"{number} {direction}" for number, direction in numbers if number)
    return "; ".join(filter(None, (shown, "cannot exist" if cell in EMPTY else "")))


def table(outcomes: Mapping[str, Outcome]) -> str:
    """One row for each edited run that was judged."""
    rows = [_row(run, outcomes[run.name]) for cell in cells() for run in _ordered(cell) if run.name in outcomes]
    return "\n".join([_HEAD, "|---" * 7 + "|", *rows])


def _ordered(cell: Cell) -> Sequence[EditedRun]:
    return [run for direction in Direction for run in in_cell(cell, direction)]


def _row(run: EditedRun, outcome: Outcome) -> str:
    must = " ".join((run.status, *run.ids)) if run.direction is Direction.CAUGHT else "not accused"
    found = " ".join((outcome.status, *outcome.ids)) + (" (struck)" if outcome.struck else "")
    mark = "" if is_as_declared(run, outcome) else " **not as declared**"
    return f"| {run.source} | {run.link} | {run.name} | {run.direction} | {must} | {found}{mark} | {run.twin} |"


def exceptions() -> str:
    """What cannot be filled, and what cannot be seen, with the reasons."""
    empty = [f"- {source} x {link}: {why}" for (source, link), why in EMPTY.items()]
    hidden = [f"- {run.name} ({run.source} x {run.link}): {run.why}" for run in grid().values() if run.why]
    return "\n".join(["Cells without an edit that could be caught:", *empty, "", "Cannot be seen:", *hidden])


def variants(outcomes: Mapping[str, Outcome]) -> str:
    """What is said of each kind of honest run."""
    rows = [f"| {words} | {name} | {outcomes[name].status} |" for words, name in VARIANTS.items() if name in outcomes]
    return "\n".join(["| honest run | name | verdict |", "|---|---|---|", *rows])
