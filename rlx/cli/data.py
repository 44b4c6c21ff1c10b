"""rlx data: make data sets (tiny-cpu, gsm8k), and check them for a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlx.backends.registry import kinds, parts
from rlx.cli.frame.output import narrate, patience, print_json, print_text
from rlx.cli.frame.site_options import ContainerOption, HostOption, SendOption, chosen_target
from rlx.errors import ExitCode, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.model import Finding, Site
    from rlx.planning.data_files import Gsm8kForm, Preprocessing

data = typer.Typer(
    name="data",
    help="Make data sets (tiny-cpu, gsm8k), and check them for a recipe.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
TINY_CPU_FOLDER = "~/.cache/rlx/tiny-cpu"
# The strict reward searches for ####.
INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'
MODULES = ("data_rows", "gsm8k_source", "gsm8k_data")
_TIMEOUT_S = 600
_PREPROCESS_TIMEOUT_S = 3600


@data.command("tiny-cpu")
def tiny_cpu(
    host: HostOption = None,
    container: ContainerOption = None,
    to: Annotated[str, typer.Option(help="The folder to write; the recipe names the default.")] = TINY_CPU_FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Make it again even if it is complete.")] = False,
) -> None:
    """Make the tiny model and its data.

    They are made where the training will read them: here, on the host, or in its container. Prints the folder. A
    complete one is left as it is.
    """
    from rlx.api.data import data_site, make_tiny_data

    answer = make_tiny_data(data_site(host, container), to, force=force, tell=narrate)
    if not answer["made"]:
        narrate(f"{answer['folder']} is complete")
    print(answer["folder"])


def _forms() -> dict[str, Gsm8kForm]:
    """Return the form of the data of each back-end that rlx converts for, by its kind."""
    return {kind: module.GSM8K for kind, module in parts("data") if hasattr(module, "GSM8K")}


def _help(option: str) -> str:
    """Return the help of an option after the back-ends that have it: `verl: the column of the chat.`"""
    told = [(kind, form.help[option]) for kind, form in _forms().items() if option in form.help]
    return f"{', '.join(kind for kind, _ in told)}: {told[0][1]}"


_DEFAULT = kinds()[0]
if TYPE_CHECKING:
    Framework = str
else:
    Framework = Literal[tuple(_forms())]


@data.command("gsm8k")
def gsm8k(
    source: Annotated[
        list[str], typer.Argument(help="Folder as downloaded, or files (parquet, jsonl) named after train and test.")
    ],
    to: Annotated[str, typer.Option(help="The folder to write.")],
    framework: Annotated[Framework, typer.Option("--for", help="The framework that trains on it.")] = _DEFAULT,
    form: Annotated[
        Literal["prompt", "messages"],
        typer.Option(help=_help("form")),
    ] = "prompt",
    instruction: Annotated[str, typer.Option(help=_help("instruction"))] = INSTRUCTION,
    tokenizer: Annotated[str | None, typer.Option(metavar="FOLDER", help=_help("tokenizer"))] = None,
    preprocess: Annotated[str | None, typer.Option(metavar="CHECKOUT", help=_help("preprocess"))] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that hold something else.")] = False,
    host: HostOption = None,
    container: ContainerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Convert GSM8K for a training framework.

    Source and target are paths on this machine, on the host, or in its container. Nothing is written if a row is bad;
    existing files are left as they are, so an interrupted conversion can be repeated. Prints the files.
    """
    from rlx.api.data import data_site, refuse_relative
    from rlx.hosts.host_errors import reading_answer
    from rlx.hosts.sent_python import place_text, run_sent

    _check(framework, tokenizer, preprocess)
    site = data_site(host, container)
    for option, path in (*(("source", path) for path in source), ("--to", to), ("--preprocess", preprocess or to)):
        refuse_relative(site, option, path)
    order = {"sources": source, "to": to, "style": _forms()[framework].style or form, "force": force}
    order |= {"instruction": instruction, "tokenizer": tokenizer or ""}
    with patience(f"making {to} …"):
        answer = run_sent(site, MODULES, order, _TIMEOUT_S)
    with reading_answer(place_text(site), "rlx data"):
        if "problem" in answer:
            raise _error(answer, place_text(site))
        step = _forms()[framework].preprocessing
        if preprocess and step:
            answer["packed"] = _preprocessed(site, step, preprocess, to)
        _tell(answer, step, as_json)


def _check(framework: str, tokenizer: str | None, preprocess: str | None) -> None:
    form = _forms()[framework]
    if form.tokenizer and not tokenizer:
        raise UsageError(f"--for {framework}: {form.tokenizer}", "name the model: --tokenizer FOLDER")
    if preprocess and form.preprocessing is None:
        able = {kind: other.preprocessing for kind, other in _forms().items() if other.preprocessing}
        owners = " or ".join(step.owner for step in able.values())
        raise UsageError(f"--preprocess is a step of {owners}", f"say --for {' or '.join(able)}, or leave it out")


def _preprocessed(site: Site, step: Preprocessing, checkout: str, folder: str) -> list[str]:
    """Run the back-end's own step and return the files that it made. Raise RlxError with its last lines."""
    from rlx.api.data import refusal
    from rlx.hosts.sent_python import place_text, run_sent

    narrate(f"running {step.command} in {checkout} …")
    order = {"checkout": checkout, "folder": folder, "setup": site.setup}
    answer = run_sent(site, ("data_rows", step.module), order, _PREPROCESS_TIMEOUT_S)
    if "problem" in answer:
        raise refusal(answer, place_text(site))
    files: list[str] = answer["files"]
    return files


def _error(answer: dict[str, Any], where: str) -> RlxError:
    from rlx.api.data import refusal
    from rlx.planning.data_files import rows_by_fault

    if answer["problem"] != "rows":
        return refusal(answer, where)
    shown = answer["rows"]
    lines = [f"  {line}" for line in rows_by_fault(shown)]
    if answer["bad"] > len(shown):
        lines.append(f"  and {answer['bad'] - len(shown):,} more")
    return RlxError(
        "\n".join([f"{where}: {answer['detail']} cannot be used", *lines]),
        "correct or remove these rows; nothing was written",
    )


def _tell(answer: dict[str, Any], step: Preprocessing | None, as_json: bool) -> None:
    for note in answer["notes"]:
        narrate(f"rlx: note: {note}")
    if as_json:
        print_json(answer)
        return
    for file in answer["files"]:
        what = file["split"] if file["rows"] else "its preprocessing"
        next_step = f"--preprocess CHECKOUT, or in {step.folder}: {step.command}" if step else ""
        rows = f"{file['rows']:,} rows" if file["rows"] else next_step
        narrate(f"{what}: {rows}{'' if file['written'] else ', as it was'}")
        print_text(file["path"])
    for path in answer.get("packed", ()):
        print_text(path)


@data.command("check")
def check(
    recipe: Annotated[str, typer.Argument(help="Recipe file, name of a bundled recipe, or - for standard input.")],
    arm: Annotated[str | None, typer.Option(help="The arm whose data is checked. Default: the control.")] = None,
    host: HostOption = None,
    container: ContainerOption = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value, such as data.val=/tmp/v.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the recipe's own reward function on some rows, where the data is.")
    ] = False,
    send: SendOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> None:
    """Check that the data files fit the recipe.

    Rows, columns, chat messages, ground truths for the recipe's reward, prompt lengths where the model's tokenizer is,
    and questions that both files contain. Files are read where a launch would read them. Exit code 5 if they do not
    fit.
    """
    from rlx.api.data import check_data
    from rlx.hosts.sent_python import place_text
    from rlx.recipe import load_recipe

    file = load_recipe(recipe, sets or ())
    site = chosen_target(host, container).site
    with patience():
        checked = check_data(file, site, arm, trust=trust, send=send or ())
    fits = checked.fits(strict)
    if as_json:
        print_json({"recipe": recipe, "fits": fits, "findings": checked.findings, "files": checked.files})
    else:
        _print(recipe, place_text(site), fits, checked.findings, checked.files)
    if not fits:
        raise typer.Exit(ExitCode.PREFLIGHT_FAILED)


def _print(recipe: str, where: str, fits: bool, findings: tuple[Finding, ...], files: dict[str, Any]) -> None:
    from rlx.model import finding_text

    rows = ", ".join(
        f"{role} {file['rows']:,} rows" for role, file in files.items() if isinstance(file.get("rows"), int)
    )
    print_text(f"{recipe}: the data on {where} {'fits' if fits else 'does not fit'}{f' ({rows})' if rows else ''}")
    for finding in findings:
        print_text("  " + finding_text(finding).replace("\n", "\n  "))
