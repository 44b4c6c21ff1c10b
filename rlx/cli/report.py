"""rlx report: everything that is known of some runs as one page, to be passed on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import Metric, Seeds
from rlx.errors import ExitCode, NoSuchRun, RlxError

if TYPE_CHECKING:
    from rlx.api.comparing import Compared, Uncompared
    from rlx.runs import Index, RunRef


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTROL TREATMENT... | RUN]...",
            help="Arms, run names or ids, the control first. Default: all arms of the latest launch.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")] = Path(
        "report.html"
    ),
    metric: Metric = None,
    seeds: Seeds = None,
) -> None:
    """Write a page that says what these runs show, and what proves it.

    Summary, curves, verdicts with their evidence, what differs, items, time and versions in one HTML file that opens
    offline. A report written before is replaced, any other file is not. Exit code 0: the page is written. What may
    be reported stands in it, and is the exit code of rlx compare.
    """
    from rlx.api.selection import open_index
    from rlx.cli.frame.output import print_text
    from rlx.cli.text.pictures import check_files, write_page

    check_files(None, output)
    index = open_index()
    write_page(output, index, _found(index, names or (), seeds or (), metric))
    print_text(str(output))


def _found(index: Index, names: Sequence[str], seeds: Collection[int], metric: str | None) -> Compared | Uncompared:
    """The comparison; where no metric allows one, verdicts and evidence of the runs still say what happened."""
    from rlx.api.comparing import Uncompared, beside_control, compare_judged, judged_arms

    refs = _arms(index, names, seeds)
    judged = judged_arms(index, refs)
    if len(names) < 2:
        # Nobody said which arm is the control, but their recipe did.
        order = sorted(range(len(refs)), key=lambda arm: judged[arm][0].arm != judged[arm][0].plan.control)
        refs, judged = [refs[arm] for arm in order], [judged[arm] for arm in order]
    arms = beside_control(index, judged)
    try:
        return compare_judged(index, refs, arms, metric)
    except RlxError as problem:
        if problem.exit_code not in (ExitCode.NOT_VERIFIED, ExitCode.NOT_FINISHED):
            raise
        return Uncompared([*chain(*arms)], problem.message)


def _arms(index: Index, names: Sequence[str], seeds: Collection[int]) -> list[tuple[RunRef, ...]]:
    """Make each of several names an arm; one name or none may mean all arms of a launch. Raises NoSuchRun."""
    from rlx.api.arm_names import select_arms, selection_notes
    from rlx.api.selection import runs_or_latest
    from rlx.cli.frame.output import narrate

    if len(names) > 1:
        arms = select_arms(index, names, seeds)
        for note in selection_notes(index, names, arms):
            narrate(note)
        return arms
    found = [ref for ref in runs_or_latest(index, names) if not seeds or ref.seed in seeds]
    if not found:
        raise NoSuchRun(f"no such run with seed {' or '.join(map(str, seeds))}", "leave out --seed")
    return [tuple(ref for ref in found if ref.arm == arm) for arm in dict.fromkeys(ref.arm for ref in found)]
