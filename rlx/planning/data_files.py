"""Check that data files fit the recipe. They are read where they are stored, in one round trip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.backends.registry import optional_part
from rlx.errors import RlxError
from rlx.installed import install_command
from rlx.local_files import MOST_SOURCE, read_text
from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.model import Site
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

MODULES = ("data_rows", "data_overlap", "examine_data")
_TIMEOUT_S = 600
_MOST_SHARED = 0.5
_MANY_REPEATS = 0.05

FileFacts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NamedReward:
    """A reward that `data_source` in the data selects, and the form of its ground truths."""

    source: str
    truth: str


@dataclass(frozen=True, slots=True)
class TableForm:
    """How a back-end reads tables: the `TABLES` of its module `data`, if it has one.

    `rewards`: the rewards by name; `prompts` and `truths`: what the rows need, as the fix of a finding.
    """

    name: str
    rewards: Mapping[str, NamedReward] = field(default_factory=dict)
    prompts: str = "the rows need chats as messages"
    truths: str = "the rows need what the reward compares with"


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """A program of the back-end's checkout that makes its data from the converted files."""

    owner: str
    module: Path
    command: str
    folder: str


@dataclass(frozen=True, slots=True)
class Gsm8kForm:
    """How GSM8K is converted for a back-end: the `GSM8K` of its module `data`, if rlx converts it.

    `help`: the help of the options that are for this back-end only. `style`: the name of the form in
    payload/gsm8k_data.py, "" for the one of `--form`. `tokenizer`: why it needs one, "" if not.
    """

    help: Mapping[str, str]
    style: str = ""
    tokenizer: str = ""
    preprocessing: Preprocessing | None = None


def form_of(recipe: Recipe) -> TableForm:
    """Return how the recipe's back-end reads tables."""
    own = optional_part(recipe.backend.kind, "data")
    form: TableForm = own.TABLES if own else TableForm(recipe.backend.kind)
    return form


def _named_reward(recipe: Recipe) -> NamedReward | None:
    return form_of(recipe).rewards.get(recipe.reward) if isinstance(recipe.reward, str) else None


def examine(resolved: ResolvedRecipe, site: Site, *, calls_reward: bool = False) -> FileFacts:
    """Read the files; with `calls_reward` the recipe's own function is called on some rows.

    Raises HostError, UsageError for an unreadable reward file, RlxError without pyarrow.
    """
    from rlx.hosts.host_errors import reading_answer
    from rlx.hosts.sent_python import place_text, run_sent

    answer = run_sent(site, MODULES, _order(resolved.recipe, calls_reward), _TIMEOUT_S)
    with reading_answer(place_text(site), "what its data files hold"):
        if "problem" in answer:
            raise RlxError(
                f"{place_text(site)}: reading parquet files needs {answer['detail']}",
                f"here: {install_command('data')}; elsewhere name the container that has it: --container NAME",
            )
    return answer


def _order(recipe: Recipe, calls_reward: bool) -> dict[str, Any]:
    named = _named_reward(recipe)
    return {
        "files": {"train": recipe.data.train, "val": recipe.data.val},
        "prompt_key": recipe.data.prompt_key,
        "model": recipe.model.path,
        "max_prompt_tokens": recipe.data.max_prompt_tokens,
        "truth": named.truth if named else "",
        "reward": _reward_function(recipe) if calls_reward else None,
    }


def _reward_function(recipe: Recipe) -> dict[str, Any] | None:
    from rlx.recipe.schema import FunctionReward

    reward = recipe.reward
    if not isinstance(reward, FunctionReward):
        return None
    try:
        text = read_text(Path(reward.path), MOST_SOURCE)
    except OSError as problem:
        raise RlxError(f"{reward.path}: cannot be read: {problem.strerror}", "check reward.path") from None
    return {"text": text, "path": reward.path, "function": reward.function, "kwargs": reward.kwargs}


def data_findings(recipe: Recipe, facts: FileFacts, *, called_reward: bool = False) -> tuple[Finding, ...]:
    """Return what the facts mean for the recipe, errors first."""
    from rlx.recipe.schema import FunctionReward

    found = [finding for role in ("train", "val") for finding in _of_file(recipe, role, facts["files"][role])]
    found += _of_both(recipe, facts)
    if isinstance(recipe.reward, FunctionReward) and not called_reward:
        message = "the recipe's reward function was not called: a check runs no code of a recipe"
        found.append(Finding("RLX023", Severity.NOTE, message, "rlx data check --trust calls it on some rows"))
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _of_file(recipe: Recipe, role: str, file: FileFacts) -> Iterator[Finding]:
    if "unreadable" in file:
        yield _error("RLX016", f"data.{role}: {file['unreadable']}", "correct the path, or make the file: rlx data")
        return
    if not file["rows"]:
        yield _error("RLX016", f"data.{role}: the file holds no rows", "make the file again, or name the right one")
        return
    if file["broken"]["count"]:
        message = f"data.{role}: {_rows_text(file['broken'], file['rows'])} no object with columns"
        yield _error("RLX016", message, "make the file again, or remove these lines")
    yield from _row_count(recipe, role, file)
    if file["columns"] and recipe.data.prompt_key not in file["columns"]:
        message = f"data.{role}: has no column {recipe.data.prompt_key}, only {', '.join(file['columns'])}"
        form = " --form messages" if recipe.data.prompt_key == "messages" else ""
        yield _error("RLX018", message, f"name it in data.prompt_key, or convert the file: rlx data gsm8k{form}")
    elif file["prompts"]["count"]:
        message = f"data.{role}: {_rows_text(file['prompts'], file['rows'])} no chat for {recipe.data.prompt_key}"
        yield _error("RLX019", message, form_of(recipe).prompts)
    yield from _grading(recipe, role, file)
    if role == "val" and file["repeats"]["count"]:
        share = file["repeats"]["count"] / file["rows"]
        message = f"data.val: {_rows_text(file['repeats'], file['rows'])} the question and right answer of another row"
        severity = Severity.WARNING if share >= _MANY_REPEATS else Severity.NOTE
        yield Finding("RLX027", severity, message, "keep one row of each: tests count distinct items")


def _row_count(recipe: Recipe, role: str, file: FileFacts) -> Iterator[Finding]:
    key, expected = f"data.{role}_rows", getattr(recipe.data, f"{role}_rows")
    long = file["long"]["count"] if file["long"] else 0
    used = file["rows"] - long
    if expected not in (None, used, file["rows"]):
        message = f"{key} {expected:,}: the file has {file['rows']:,} rows"
        yield _error("RLX017", message, f"write {key}: {used}, or name the right file")
    elif expected is None:
        fix = f"write {key}: {used}, so that the log can be checked against it"
        yield Finding("RLX017", Severity.NOTE, f"data.{role}: has {file['rows']:,} rows", fix)
    if long and expected != used:
        limit = recipe.data.max_prompt_tokens
        dropped = (
            f"{_rows_text(file['long'], file['rows'])} over {limit} tokens long; {form_of(recipe).name} drops them"
        )
        message = f"data.{role}: {dropped}"
        fix = f"raise data.max_prompt_tokens to {file['long']['longest']}, or write {key}: {used}"
        yield Finding("RLX022", Severity.WARNING, message, fix)


def _grading(recipe: Recipe, role: str, file: FileFacts) -> Iterator[Finding]:
    named = _named_reward(recipe)
    others = [f"{name} ({count:,} rows)" for name, count in file["sources"].items() if named and name != named.source]
    if file["truths"]["count"]:
        message = f"data.{role}: {_rows_text(file['truths'], file['rows'])} no answer that can be graded"
        yield _error("RLX020", message, form_of(recipe).truths)
    if named and others:
        picks = f"{form_of(recipe).name} picks reward {recipe.reward} by {named.source}"
        message = f"data.{role}: data_source {', '.join(others)}, but {picks}"
        yield _error("RLX021", message, f"write data_source {named.source}, or give reward: {{path, function}}")
    if file["reward"]:
        yield _error("RLX021", f"data.{role}: the reward function fails: {file['reward']}", "correct the function")


def _of_both(recipe: Recipe, facts: FileFacts) -> Iterator[Finding]:
    if isinstance(recipe.reward, str) and _named_reward(recipe) is None:
        message = f"reward {recipe.reward}: rlx does not know which ground truths it can grade"
        yield Finding("RLX023", Severity.NOTE, message)
    if facts["not_measured"]:
        message = f"prompt lengths were not measured: {facts['not_measured']}"
        yield Finding("RLX023", Severity.NOTE, message, "run it where the model is: --host, --container")
    if (shared := facts["overlap"]) and (shared["exact"] or shared["near"]):
        yield overlap_finding(shared, facts["files"]["val"]["rows"], recipe.waive.get("RLX024", ""))


def unmeasured_overlap(reason: str, where: str) -> Finding:
    """Report why the share of the validation in the training data is not known."""
    message = f"the share of the validation that is also training data was not measured: {reason}"
    return Finding("RLX023", Severity.NOTE, message, "rlx data check measures it, also where there is pyarrow", where)


def overlap_finding(shared: FileFacts, rows: int, reason: str = "", where: str = "") -> Finding:
    """Report the validation questions that the training data has too; more than half is an error unless waived.

    `reason`: why the recipe waives it.
    """
    both = shared["exact"] + shared["near"]
    near = f", {shared['near']:,} of them with other words around" if shared["near"] else ""
    message = (
        f"{both:,} of {rows:,} validation questions are also training questions with the same right answer "
        f"({both / rows:.0%}){near}; such as row {shared['row']} of data.val, row {shared['train_row']} of data.train"
    )
    if reason:
        return Finding("RLX024", Severity.NOTE, f"waived ({reason}): {message}", waived=reason)
    severity = Severity.ERROR if both > _MOST_SHARED * rows else Severity.WARNING
    fix = "validate on rows that the run does not train on; waive: {RLX024: REASON} accepts it"
    return Finding("RLX024", severity, message, fix, where)


def rows_by_fault(bad: Sequence[FileFacts]) -> list[str]:
    """Group rows by fault: `rows 5, 7, 9: text instead of messages`."""
    faults: dict[str, list[str]] = {}
    for one in bad:
        faults.setdefault(one["what"], []).append(str(one["row"]))
    return [f"row{'s' if len(rows) > 1 else ''} {', '.join(rows)}: {what}" for what, rows in faults.items()]


def _rows_text(bad: FileFacts, rows: int) -> str:
    """Write `3 of 7,473 rows (rows 5, 7, 9: text instead of messages; …):`."""
    first = "; ".join(rows_by_fault(bad["first"]))
    more = "; …" if bad["count"] > len(bad["first"]) else ""
    return f"{bad['count']:,} of {rows:,} rows ({first}{more}):"


def _error(name: str, message: str, fix: str) -> Finding:
    return Finding(name, Severity.ERROR, message, fix)
