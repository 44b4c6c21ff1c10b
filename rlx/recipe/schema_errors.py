"""Explain in plain words what pydantic found, with the place in the file and the nearest valid key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rlx.backends.registry import parts
from rlx.recipe.problems import SHOWN_PROBLEMS, Problem
from rlx.recipe.schema import Experiment, Recipe
from rlx.recipe.tree import Node, nearest
from rlx.secret_text import mask

# Keys that only the file has: they are worked in before the schema sees the recipe.
FILE_KEYS = ("extends", "control", "arms", "experiment")

_FOREIGN_VALUES = {
    "gpu": "cuda",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "gae": "ppo",
    "k3": "low_var_kl",
}

_MISSING = "required, but missing"
_UNKNOWN = "unknown key"
_DID_YOU_MEAN = "; did you mean "
_MISSPELT = _UNKNOWN + _DID_YOU_MEAN

_WANTED = {
    "bool": "true or false",
    "dict": "a map of `key: value` lines",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a map of `key: value` lines",
    "string": "text",
    "tuple": "a list",
}
_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def explain_all(error: ValidationError, root: Node) -> list[Problem]:
    """Return the problems of a document in the order of the file. Beyond what is shown, they are only counted."""
    placed = [(nearest(root, _path(detail)).place, detail) for detail in error.errors(include_url=False)]
    placed.sort(key=lambda item: (item[0].file, item[0].line))
    problems = [Problem(place, dotted(_path(detail)), _words(detail)) for place, detail in placed[:SHOWN_PROBLEMS]]
    problems = _without_consequences(problems)
    rest = [Problem(place, dotted(_path(detail)), "is wrong too") for place, detail in placed[SHOWN_PROBLEMS:]]
    return problems + rest


def _without_consequences(problems: list[Problem]) -> list[Problem]:
    """Leave out keys that are only missing because they are misspelt beside."""
    meant = {
        f"{problem.key.rpartition('.')[0]}.{problem.text.removeprefix(_MISSPELT).rstrip('?')}"
        for problem in problems
        if problem.text.startswith(_MISSPELT)
    }
    # A key of the top level has an empty section.
    return [
        problem
        for problem in problems
        if problem.text != _MISSING or (problem.key if "." in problem.key else f".{problem.key}") not in meant
    ]


def suggest_key(path: Sequence[str | int]) -> str:
    """Return the valid key that was probably meant by an unknown one, as `; did you mean …?`, or nothing."""
    *above, key = [str(step)[:60] for step in path]
    siblings = _keys_of(tuple(above))
    if near := difflib.get_close_matches(key.lower(), siblings, n=1):
        return f"{_DID_YOU_MEAN}{near[0]}?"
    elsewhere = [dotted for dotted in _all_keys() if dotted.rsplit(".", 1)[-1] == key]
    if foreign := _foreign_key(key):
        elsewhere = [foreign]
    if elsewhere:
        return f"; did you mean {' or '.join(elsewhere)}?"
    return f"; valid here: {', '.join(siblings)}" if siblings else ""


def _foreign_key(key: str) -> str | None:
    """Return the recipe's key for the name that users of a back-end type."""
    return next((known.RECIPE_KEYS[key] for _, known in parts("recipe_keys") if key in known.RECIPE_KEYS), None)


def describe(value: Any) -> str:
    """Return a value as the user wrote it, for `found …`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        value = mask(value)
        return f'the text "{value}"' if len(value) <= 60 else f'the text "{value[:57]}…"'
    return "a list" if isinstance(value, list | tuple) else "a map"


def _path(detail: ErrorDetails) -> tuple[str | int, ...]:
    if key := detail.get("ctx", {}).get("key"):
        return tuple(key.split("."))
    # <…>: which form of a union was tried. [key]: pydantic complains about the key of a map.
    return tuple(step for step in detail["loc"] if not re.fullmatch(r"<.*>|\[key\]", str(step), re.DOTALL))


def dotted(path: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in path)
    return text.removeprefix(".")


def _words(detail: ErrorDetails) -> str:
    kind, context, found = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "rlx":
        return str(context["text"])
    if kind == "missing":
        return _MISSING
    if kind == "extra_forbidden":
        return _UNKNOWN + suggest_key(_path(detail))
    if kind == "literal_error":
        return _literal_words(str(context["expected"]), found)
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"must be {words} {context[bound]:g}, found {describe(found)}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty"
    return _type_words(detail)


def _literal_words(expected: str, found: Any) -> str:
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    foreign = _FOREIGN_VALUES.get(str(found).lower())
    near = [foreign] if foreign in choices else difflib.get_close_matches(str(found)[:60], choices, n=1)
    only = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    return f"must be {only}, found {describe(found)}" + (f"; did you mean {near[0]}?" if near else "")


def _type_words(detail: ErrorDetails) -> str:
    wanted = _WANTED.get(detail["type"].removesuffix("_type").split("_")[0])
    if wanted is None:
        return detail["msg"][:1].lower() + detail["msg"][1:]
    found = detail["input"]
    # A value of env may be a password in the wrong place.
    shown = "" if detail["loc"][:1] == ("env",) else f", found {describe(found)}"
    return f"must be {wanted}{shown}{_type_fix(wanted, found, shown)}"


def _type_fix(wanted: str, found: Any, shown: str) -> str:
    if wanted == "text" and isinstance(found, bool | int | float):
        return f'; quote it: "{describe(found)}"' if shown else "; put it in quotes"
    if isinstance(found, str):
        return _text_fix(wanted, found)
    if wanted == "a list" and found is not None:
        return f"; write [{describe(found)}]" if isinstance(found, int | float) else ""
    if wanted == "a whole number" and isinstance(found, float) and found.is_integer() and abs(found) < 1e15:
        return f"; write {found:.0f}"
    return ""


def _text_fix(wanted: str, found: str) -> str:
    if wanted == "a list":
        return f"; write [{found[:60]}]"
    if wanted == "true or false" and found.lower() in ("yes", "on", "no", "off", "true", "false"):
        return f"; write {'true' if found.lower() in ('yes', 'on', 'true') else 'false'}"
    if wanted in ("a number", "a whole number") and _is_number(found):
        return "; remove the quotes"
    if wanted.startswith("a map") and ":" in found:
        return "; is there a space after each colon?"
    return ""


def _is_number(text: str) -> bool:
    try:
        return float(text) is not None
    except ValueError:
        return False


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections that a field with this annotation may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


@cache
def _sections() -> dict[tuple[str, ...], dict[str, Any]]:
    """Path of each section -> its keys."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}

    def visit(model: type[BaseModel], path: tuple[str, ...]) -> None:
        for name, field in model.model_fields.items():
            found.setdefault(path, {})[name] = field
            for below in _models(field.annotation):
                visit(below, (*path, name))

    visit(Recipe, ())
    visit(Experiment, ("experiment",))
    return found


def _keys_of(path: tuple[str, ...]) -> list[str]:
    return [*_sections().get(path, ()), *(FILE_KEYS if not path else ())]


@cache
def _all_keys() -> tuple[str, ...]:
    return tuple(".".join((*path, key)) for path, keys in _sections().items() for key in keys)
