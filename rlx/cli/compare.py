"""rlx compare: hold treatment runs against a control run, and say no more than the numbers allow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rlx.compare import Comparison
    from rlx.evidence import JudgedRun
    from rlx.runs import Index, RunRef


def compare(
    control: Annotated[str, typer.Argument(help="The control: an arm, or a run by name or id.")],
    treatments: Annotated[list[str], typer.Argument(metavar="TREATMENT...", help="The arms to hold against it.")],
    metric: Annotated[
        str | None, typer.Option(help="Metric name or a part of it. Default: the validation metric of the log.")
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option("--seed", help="Only runs with this seed; may be repeated. Default: all.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 14 for an unverified run, too.")] = False,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of a terminal table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="The values by step as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare arms, and say what may be reported.

    By step: difference, interval, p-value, and what differs besides the treatment. An arm is all its runs of the
    newest launch, one a seed; names joined by commas are one arm. Several seeds an arm say something about the
    treatment, one run says something about two checkpoints, item by item where the outputs were kept.
    Values meet at the last step at which all runs were validated; a peak is shown and never used. Exit code: 0 may
    be reported · 11 a run has not finished · 14 a run is invalid or incomplete, or the runs are not comparable.
    """
    from rlx.cli.compare_text import as_answer, csv_text, markdown_text, print_terminal
    from rlx.cli.home import rlx_home
    from rlx.cli.output import print_json
    from rlx.runs import Index

    if as_markdown + as_csv + as_json > 1:
        raise UsageError("--md, --csv and --json exclude each other", "name one of them")
    comparison = compare_named(Index(rlx_home()), (control, *treatments), metric, seeds or ())
    if as_json:
        print_json(as_answer(comparison))
    elif as_csv:
        print(csv_text(comparison), end="")
    elif as_markdown:
        print(markdown_text(comparison), end="")
    else:
        print_terminal(comparison)
    raise typer.Exit(outcome(comparison, strict))


def compare_named(index: Index, names: Sequence[str], metric: str | None, seeds: Collection[int]) -> Comparison:
    """The comparison of the arms that the names mean, control first; says on stderr which runs were taken."""
    from rlx.cli.arms import select_arms, selection_notes
    from rlx.cli.output import narrate
    from rlx.compare import checkpoints_to_pair
    from rlx.compare import compare as compare_arms
    from rlx.runs import items_of

    refs = select_arms(index, names, seeds)
    for note in selection_notes(index, names, refs):
        narrate(note)
    control, *treatments = _judged(index, refs)
    chosen, wanted = checkpoints_to_pair(control, treatments, metric)
    items = {
        step: items_of(
            index,
            [ref for arm in refs for ref in arm if ref.run_id in ids],
            step,
            chosen,
            lambda problem: narrate(f"not compared item by item: {problem}"),
        )
        for step, ids in wanted.items()
    }
    return compare_arms(control, treatments, chosen, items)


def _judged(index: Index, refs: Sequence[Sequence[RunRef]]) -> list[list[JudgedRun]]:
    """The runs of each arm, judged; those of the treatments beside the control run with their seed."""
    from rlx.cli.output import narrate
    from rlx.compare import same_seed
    from rlx.runs.judged import judge_beside, judge_runs

    runs = iter(judge_runs(index, [ref for arm in refs for ref in arm]))
    control, *treatments = [[next(runs) for _ in arm] for arm in refs]
    for run in chain(control, *treatments):
        if run.as_of is not None:
            end = ", made after its end" if run.state.is_terminal else ""
            narrate(f"{run.run_id}: its host cannot be asked; from the copy of {moment(run.as_of)}{end}")
    return [control, *([judge_beside(same_seed(control, [run])[0], run) for run in arm] for arm in treatments)]


def moment(epoch: float) -> str:
    """A point in time for a person, in the time zone of this machine."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch))


def outcome(comparison: Comparison, strict: bool) -> ExitCode:
    """What cannot be mended by waiting comes first."""
    if any(run.struck for run in comparison.runs) or any(contrast.errors for contrast in comparison.contrasts):
        return ExitCode.NOT_VERIFIED
    if comparison.interim:
        return ExitCode.NOT_FINISHED
    return ExitCode.NOT_VERIFIED if strict and not comparison.verified else ExitCode.OK
