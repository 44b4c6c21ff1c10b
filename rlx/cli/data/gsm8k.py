"""`rlx data gsm8k`: GSM8K as it is published becomes what verl or MindSpeed-RL trains on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlx.cli.frame.site_options import ContainerOption, HostOption
from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.plan import Site

# verl's own, from its examples: the strict reward looks for the mark.
INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'
MODULES = ("data_rows", "gsm8k_source", "gsm8k_data")
_TIMEOUT_S = 600
_PREPROCESS_TIMEOUT_S = 3600
# Of MindSpeed-RL; what that writes is the recipe's data.
_CONFIGS = "configs/datasets/ of MindSpeed-RL"
_PREPROCESS = "python cli/preprocess_data.py gsm8k"


def gsm8k(
    source: Annotated[
        list[str], typer.Argument(help="Folder as downloaded, or files (parquet, jsonl) named after train and test.")
    ],
    to: Annotated[str, typer.Option(help="The folder to write.")],
    framework: Annotated[
        Literal["verl", "mindspeed-rl"], typer.Option("--for", help="Who is to train on it.")
    ] = "verl",
    form: Annotated[
        Literal["prompt", "messages"],
        typer.Option(help="verl: the column of the chat; messages has the whole answer beside it."),
    ] = "prompt",
    instruction: Annotated[
        str, typer.Option(help="verl: what is added to each question; empty: nothing.")
    ] = INSTRUCTION,
    tokenizer: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="mindspeed-rl: the model whose tokenizer is used.")
    ] = None,
    preprocess: Annotated[
        str | None, typer.Option(metavar="CHECKOUT", help="mindspeed-rl: then run its own preprocessing there.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that hold something else.")] = False,
    host: HostOption = None,
    container: ContainerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Convert GSM8K for a training framework.

    Source and target are paths on this machine, on the host, or in its container. Nothing is written if one row is
    bad; what is there already is left alone, so a conversion that was cut off can be repeated. Prints the files.
    """
    from rlx.api.data_place import data_site, refuse_relative
    from rlx.hosts.sent_python import place_text, run_sent

    _check(framework, tokenizer, preprocess)
    site = data_site(host, container)
    for option, path in (*(("source", path) for path in source), ("--to", to), ("--preprocess", preprocess or to)):
        refuse_relative(site, option, path)
    order = {"sources": source, "to": to, "style": form if framework == "verl" else framework, "force": force}
    order |= {"instruction": instruction, "tokenizer": tokenizer or ""}
    answer = run_sent(site, MODULES, order, _TIMEOUT_S)
    if "problem" in answer:
        raise _error(answer, place_text(site))
    if preprocess:
        answer["packed"] = _preprocessed(site, preprocess, to)
    _tell(answer, as_json)


def _check(framework: str, tokenizer: str | None, preprocess: str | None) -> None:
    if framework == "mindspeed-rl" and not tokenizer:
        raise UsageError(
            "--for mindspeed-rl: its preprocessing needs a tokenizer", "name the model: --tokenizer FOLDER"
        )
    if preprocess and framework != "mindspeed-rl":
        raise UsageError("--preprocess is a step of MindSpeed-RL", "say --for mindspeed-rl, or leave it out")


def _preprocessed(site: Site, checkout: str, folder: str) -> list[str]:
    """The six packed files. Raises RlxError with the last lines of MindSpeed-RL's program."""
    from rlx.api.data_place import refusal
    from rlx.cli.frame.output import narrate
    from rlx.hosts.sent_python import place_text, run_sent
    from rlx.resources import payload_folder

    narrate(f"running {_PREPROCESS} in {checkout} …")
    order = {"checkout": checkout, "folder": folder, "setup": site.setup}
    answer = run_sent(
        site, ("data_rows", payload_folder("mindspeed_rl") / "gsm8k_preprocess.py"), order, _PREPROCESS_TIMEOUT_S
    )
    if "problem" in answer:
        raise refusal(answer, place_text(site))
    files: list[str] = answer["files"]
    return files


def _error(answer: dict[str, Any], where: str) -> RlxError:
    from rlx.api.data_place import refusal
    from rlx.preflight.data_files import rows_by_fault

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


def _tell(answer: dict[str, Any], as_json: bool) -> None:
    from rlx.cli.frame.output import narrate, print_json, print_text

    for note in answer["notes"]:
        narrate(f"rlx: note: {note}")
    if as_json:
        print_json(answer)
        return
    for file in answer["files"]:
        what = file["split"] if file["rows"] else "its preprocessing"
        rows = f"{file['rows']:,} rows" if file["rows"] else f"--preprocess CHECKOUT, or in {_CONFIGS}: {_PREPROCESS}"
        narrate(f"{what}: {rows}{'' if file['written'] else ', as it was'}")
        print_text(file["path"])
    for path in answer.get("packed", ()):
        print_text(path)
