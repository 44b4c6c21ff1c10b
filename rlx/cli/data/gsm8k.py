"""`rlx data gsm8k`: GSM8K as it is published becomes what verl or MindSpeed-RL trains on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from rlx.cli.site import ContainerOption, HostOption
from rlx.errors import RlxError, UsageError

# verl's own, from its examples: the strict reward looks for the mark.
INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'
MODULES = ("data_rows", "gsm8k_source", "gsm8k_data")
_TIMEOUT_S = 600
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
    force: Annotated[bool, typer.Option("--force", help="Replace files that hold something else.")] = False,
    host: HostOption = None,
    container: ContainerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Convert GSM8K for a training framework.

    Source and target are paths on this machine, on the host, or in its container. Nothing is written if one row is
    bad; what is there already is left alone, so a conversion that was cut off can be repeated. Prints the files.
    """
    from rlx.cli.data.there import data_site, refuse_relative
    from rlx.hosts.sent_python import place_text, run_sent

    if framework == "mindspeed-rl" and not tokenizer:
        raise UsageError(
            "--for mindspeed-rl: its preprocessing needs a tokenizer", "name the model: --tokenizer FOLDER"
        )
    site = data_site(host, container)
    for path in source:
        refuse_relative(site, "source", path)
    refuse_relative(site, "--to", to)
    order = {"sources": source, "to": to, "style": form if framework == "verl" else framework, "force": force}
    order |= {"instruction": instruction, "tokenizer": tokenizer or ""}
    answer = run_sent(site, MODULES, order, _TIMEOUT_S)
    if "problem" in answer:
        raise _error(answer, place_text(site))
    _tell(answer, as_json)


def _error(answer: dict[str, Any], where: str) -> RlxError:
    from rlx.cli.data.there import refusal
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
    from rlx.cli.output import narrate, print_json, print_text

    for note in answer["notes"]:
        narrate(f"rlx: note: {note}")
    if as_json:
        print_json(answer)
        return
    for file in answer["files"]:
        what = file["split"] if file["rows"] else "its preprocessing"
        rows = f"{file['rows']:,} rows" if file["rows"] else f"copy it to {_CONFIGS}, then: {_PREPROCESS}"
        narrate(f"{what}: {rows}{'' if file['written'] else ', as it was'}")
        print_text(file["path"])
