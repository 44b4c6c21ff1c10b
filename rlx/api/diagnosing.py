"""Explain why a run failed, hangs or went wrong; explain findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.findings import VERDICTS, FindingRow, Language, finding_ids, finding_row, section_rows

if TYPE_CHECKING:
    from rlx.api.runs import Run
    from rlx.runs.judging.diagnose_runs import Diagnosed

# A link leads from the page of verdicts.
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def diagnose(run_or_log: Run | Path) -> Diagnosed:
    """Find the first primary cause in the log of a run, or in a log of this machine, and what followed from it.

    `.diagnosis.cause` has id, line (counted from 1), meaning and fix; it is None where the log names none.
    `.invalid_verdict` is the verdict of a run that is invalid, whose first finding goes before what the log says; None
    for any other. A string that is a file here is a log.

    Raises NoSuchRun, UsageError where a name means several runs, RlxError where the log cannot be read.
    """
    from rlx.api.runs import one_run, open_index
    from rlx.runs.judging.diagnose_runs import diagnose_log, diagnose_runs

    if isinstance(run_or_log, Path) or (isinstance(run_or_log, str) and is_log(run_or_log)):
        if not is_log(str(run_or_log)):
            raise _no_file(str(run_or_log))
        return diagnose_log(Path(run_or_log))
    index = open_index()
    (found,) = diagnose_runs(index, [one_run(index, run_or_log)])
    if found.problem is not None:
        raise found.problem
    return found


def diagnose_named(names: Sequence[str]) -> list[Diagnosed]:
    """Diagnose logs first, as they were named, then runs; without names, those of the latest launch.

    A log of a run that cannot be read is a `problem` of its own: the others are explained all the same.
    """
    from rlx.api.runs import open_index, runs_or_latest
    from rlx.runs.judging.diagnose_runs import diagnose_log, diagnose_runs

    logs = [name for name in names if is_log(name)]
    runs = [name for name in names if name not in logs]
    found = [diagnose_log(Path(name)) for name in logs]
    if runs or not logs:
        index = open_index()
        found += diagnose_runs(index, runs_or_latest(index, runs or None))
    return found


def outcome(found: Sequence[Diagnosed]) -> ExitCode:
    """Return the exit code of diagnoses: 14 where a verdict is invalid, as for those who wait for the run or compare
    it.
    """
    return ExitCode.NOT_VERIFIED if any(one.invalid_verdict for one in found) else ExitCode.OK


def is_log(name: str) -> bool:
    """Tell whether this is a file here. Raises UsageError for what looks like a path and is not a file."""
    path = Path(name)
    if path.is_file():
        return True
    is_path = "/" in name or name in (".", "..")
    if path.is_dir() and is_path:
        raise UsageError(f"{name} is a directory", f"name the log in it, as in {path / '*.log'}")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{name} is no file", "name a log on this machine, or a run: rlx status -a")
    if is_path or name.endswith((".log", ".txt")):
        raise _no_file(name)
    return False


def _no_file(name: str) -> UsageError:
    return UsageError(f"{name}: there is no such file", "name a log on this machine, or a run: rlx status -a")


def joined(problems: Sequence[RlxError]) -> RlxError:
    """One error for all logs that could not be read; each reason once."""
    messages = dict.fromkeys(problem.message for problem in problems)
    return RlxError("\n".join(messages), problems[0].hint, problems[0].exit_code)


@dataclass(frozen=True, slots=True)
class Explanation:
    """`source` is empty where the fact is rlx's own; it is in English in every language."""

    id: str
    what: str
    why: str
    fix: str
    source: str


def explain(id: str, language: str = "en") -> Explanation:
    """Explain any id that rlx prints, such as RLX104, or the word of a verdict, in English (en) or Chinese (zh).

    Raises UsageError with the nearest ids for an unknown one, and for another language.
    """
    from difflib import get_close_matches

    ids, words = finding_ids(), [row.id for row in section_rows(VERDICTS)]
    wanted = id.lower() if id.lower() in words else id.upper()
    if wanted not in (*words, *ids):
        nearest = get_close_matches(wanted, ids, n=3)
        hint = f"did you mean {', '.join(nearest)}?" if nearest else "rlx explain lists them all"
        raise UsageError(f"there is no finding {wanted}", hint)
    return _explained(finding_row(wanted), language)


def explain_all(language: str = "en") -> list[Explanation]:
    """Explain every finding there is, by id."""
    return [_explained(finding_row(id), language) for id in finding_ids()]


def _explained(row: FindingRow, language: str) -> Explanation:
    if language not in tuple(Language):
        raise UsageError(f"findings are not explained in {language!r}", f"use one of {', '.join(Language)}")
    text = row.text(Language(language))
    what, why, fix = (_LINK.sub(r"\1", part) for part in (text.title, text.reason, text.fix))
    return Explanation(row.id, what, why, fix, row.source)
