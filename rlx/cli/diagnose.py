"""rlx diagnose: why a run failed, stands still, or went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.runs.judging.diagnosed import Diagnosed


def diagnose(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN|LOGFILE]...", help="Arm, run name or id, or a log. Default: the latest launch."),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of text, for an issue.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Say why a run failed, stands still, or went wrong.

    The first primary cause in its log, with line, meaning and fix, and what followed from it; then what exit code,
    clock and metrics add. A log is searched where it is: of a run on another host only lines that may say why travel.
    """
    from rlx.cli.frame.output import print_json, print_text
    from rlx.cli.text.diagnose_markdown import markdown_text
    from rlx.cli.text.diagnose_text import as_answer, text_lines

    if as_markdown and as_json:
        raise UsageError("--md and --json exclude each other", "name one of them")
    found = _diagnose(names or [])
    if as_json:
        print_json({"runs": [as_answer(one) for one in found]})
    elif as_markdown:
        print("\n\n".join(map(markdown_text, found)))
    else:
        for number, one in enumerate(found):
            print_text("\n" * (number > 0) + "\n".join(text_lines(one)))
    _raise_problems(found)


def _diagnose(names: Sequence[str]) -> list[Diagnosed]:
    """Logs first, as they were named; then runs."""
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.runs.judging.diagnosed import diagnose_log, diagnose_runs

    logs = [name for name in names if _is_log(name)]
    runs = [name for name in names if name not in logs]
    found = [diagnose_log(Path(name)) for name in logs]
    if runs or not logs:
        index = open_index()
        found += diagnose_runs(index, runs_or_latest(index, runs))
    return found


def _is_log(name: str) -> bool:
    """A file here. What looks like a path and is none gets the words for a path. Raises UsageError."""
    path = Path(name)
    if path.is_file():
        return True
    is_path = "/" in name or name in (".", "..")
    if path.is_dir() and is_path:
        raise UsageError(f"{name} is a directory", f"name the log in it, as in {path / '*.log'}")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{name} is no file", "name a log on this machine, or a run: rlx status -a")
    if is_path or name.endswith((".log", ".txt")):
        raise UsageError(f"{name}: there is no such file", "name a log on this machine, or a run: rlx status -a")
    return False


def _raise_problems(found: Sequence[Diagnosed]) -> None:
    """One error for all logs that could not be read; each reason once."""
    problems = [one.problem for one in found if one.problem is not None]
    if problems:
        messages = dict.fromkeys(problem.message for problem in problems)
        raise RlxError("\n".join(messages), problems[0].hint, problems[0].exit_code)
