"""rlx compare: hold treatment runs against a control run, and say no more than the numbers allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import ExitCode, NoSuchRun, UsageError

if TYPE_CHECKING:
    from rlx.compare import Comparison
    from rlx.runs import Index, RunRef


def compare(
    control: Annotated[str, typer.Argument(help="The control run: arm, run name or id.")],
    treatments: Annotated[list[str], typer.Argument(metavar="TREATMENT...", help="The runs to hold against it.")],
    metric: Annotated[
        str | None, typer.Option(help="Metric name or a part of it. Default: the validation metric of the log.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Which run of an arm that was launched with several seeds.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 14 for an unverified run, too.")] = False,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of a terminal table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="The values by step as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare arms, and say what may be reported.

    By step: difference, interval, p-value, and what differs besides the treatment.
    Values meet at the last step at which both runs were validated; a peak is shown and never used. Exit code: 0 may
    be reported · 11 a run has not finished · 14 a run is invalid or incomplete, or the runs are not comparable.
    """
    from rlx.cli.compare_text import as_answer, csv_text, markdown_text, print_terminal
    from rlx.cli.home import rlx_home
    from rlx.cli.output import narrate, print_json
    from rlx.compare import compare as compare_runs
    from rlx.runs import Index
    from rlx.runs.judged import judge_beside, judge_runs

    if as_markdown + as_csv + as_json > 1:
        raise UsageError("--md, --csv and --json exclude each other", "name one of them")
    index = Index(rlx_home())
    first, *others = judge_runs(index, _one_run_each(index, (control, *treatments), seed))
    for run in (first, *others):
        if run.as_of is not None:
            end = ", made after its end" if run.state.is_terminal else ""
            narrate(f"{run.run_id}: its host cannot be asked; from the copy of {moment(run.as_of)}{end}")
    comparison = compare_runs([first], [[judge_beside(first, other)] for other in others], metric)
    if as_json:
        print_json(as_answer(comparison))
    elif as_csv:
        print(csv_text(comparison), end="")
    elif as_markdown:
        print(markdown_text(comparison), end="")
    else:
        print_terminal(comparison)
    raise typer.Exit(outcome(comparison, strict))


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


def _one_run_each(index: Index, names: Sequence[str], seed: int | None) -> list[RunRef]:
    refs = [_one_run(index, name, seed) for name in names]
    for ref, name in zip(refs, names, strict=True):
        if refs.count(ref) > 1:
            raise UsageError(f"{name}: {ref.run_id} is named twice", "name runs that can differ")
    return refs


def _one_run(index: Index, name: str, seed: int | None) -> RunRef:
    from rlx.runs import resolve

    found = resolve(index, [name])
    fitting = [ref for ref in found if seed is None or ref.seed == seed]
    if len(fitting) == 1:
        return fitting[0]
    candidates = ", ".join(ref.run_id for ref in found)
    if fitting:
        raise NoSuchRun(
            f"{name} is {len(fitting)} runs", f"compare takes one run of each arm: --seed N, or {candidates}"
        )
    raise NoSuchRun(f"{name} has no run with seed {seed}", f"there is: {candidates}")
