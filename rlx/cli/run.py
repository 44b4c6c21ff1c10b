"""rlx run: Run your own script or command line as detached runs."""

from __future__ import annotations

import inspect
import re
from copy import copy
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from rlx.cli.frame.options import RECIPES
from rlx.cli.launch import COMMAND_LINE, launch
from rlx.errors import UsageError

_OF_RECIPES = {"spread", "nodes", "set_", "send", "plan", "script", "again", "trust"}
"""Parameters of `rlx launch` that are not listed in the help: they are taken for `rlx run RECIPE`."""
_ScriptArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SCRIPT] [-- ARGS]", help="Bash script on this machine, or a recipe.", autocompletion=RECIPES
    ),
]
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def run(words: list[str] | None, **options: Any) -> None:
    """Run your own script or command line as detached runs.

    The script runs unchanged on the host; words after -- are its arguments. Without a script they are the command line:
    rlx run -- python train.py. It gets RLX_RUN_ID, RLX_RUN_DIR, RLX_ARM and RLX_SEED. One run per --arm and --seed;
    --arm 'NAME:K=V ARGS' gives an arm variables and arguments of its own, and the first arm is the control. Runs of one
    --name are compared and reported together. Takes a recipe, too, as rlx launch does.
    """
    first, others = (words[0], words[1:]) if words else (None, [])
    args = options["script_args"] or []
    if others:
        line = " ".join([*others, *args])
        raise UsageError(f"{others[0]}: arguments of the script stand after --", f"rlx run {first} … -- {line}")
    if first is not None and _is_recipe(first):
        launch(first, **options)
        return
    if options["plan"] is not None or options["script"] is not None:
        launch(None, **options)
        return
    if first is None and not args:
        raise UsageError("run what?", "rlx run train.sh, or rlx run -- python train.py --lr 1e-6")
    name = options.pop("name") or _name_of(first, args)
    launch(None, **{**options, "script": COMMAND_LINE if first is None else first}, name=name)


def _is_recipe(word: str) -> bool:
    """Tell whether the word means a recipe: standard input, YAML, or a name that is no file here."""
    path = Path(word)
    return word == "-" or path.suffix in (".yaml", ".yml") or not (path.suffix or path.is_file())


def _name_of(script: str | None, args: list[str]) -> str:
    """Name an experiment by its script, else by the first file or module of the command line, else by the program."""
    after_m = (args[at + 1] for at, word in enumerate(args[:-1]) if word == "-m")
    files = (Path(word).stem for word in args if Path(word).suffix in (".py", ".sh"))
    found = Path(script).stem if script else next(files, None) or next(after_m, None) or Path(args[0]).name
    return _NO_NAME.sub("-", found).strip("-.")[:100] or "run"


def _signature() -> inspect.Signature:
    """Return the parameters of `rlx launch`, those of recipes hidden, with the script in place of the recipe."""
    known = inspect.signature(launch, eval_str=True)
    _, *others = known.parameters.values()
    words = inspect.Parameter(
        "words", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_ScriptArgument, default=None
    )
    return known.replace(parameters=[words, *map(_shown, others)])


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.name not in _OF_RECIPES:
        return parameter
    kind, option = get_args(parameter.annotation)
    hidden = copy(option)
    hidden.hidden = True
    return parameter.replace(annotation=Annotated[kind, hidden])


run.__signature__ = _signature()  # type: ignore[attr-defined]
