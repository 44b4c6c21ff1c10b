"""Mend what is nearly a recipe: take out what the schema refuses, and fill in what it wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.errors import UsageError

_MOST_ROUNDS = 20
# What a recipe must say, where a launch does not, or says it in a form that a recipe cannot have.
STAND_INS: Mapping[str, object] = {
    "backend.workdir": "~/fill-in/checkout",
    "model.path": "~/fill-in/model",
    "data.train": "~/fill-in/train.parquet",
    "data.val": "~/fill-in/val.parquet",
    "data.max_prompt_tokens": 512,
    "data.max_response_tokens": 512,
    "train.batch_size": 1,
    "train.mini_batch_size": 1,
    "train.micro_batch_size": 1,
    "train.lr": 1e-6,
    "rollout.n": 1,
    "rollout.log_prob_micro_batch_size": 1,
    "reward": "by-data-source",
    "layout.device": "npu",
}


def mended(document: dict[str, Any]) -> dict[str, Any]:
    """Take out what the schema refuses, and fill in what it wants, so that the rest becomes a recipe.

    Nothing is lost by that: what is not rendered as the launch has it goes to `overrides`.
    """
    from pydantic import ValidationError

    from rlx.recipe.schema import Recipe

    document = {"version": 1, **{key: value for key, value in document.items() if value not in ({}, [])}}
    for _ in range(_MOST_ROUNDS):
        try:
            recipe = Recipe.model_validate(document)
        except ValidationError as problem:
            for error in problem.errors(include_url=False, include_context=True):
                _mend(document, error)
        else:
            return recipe.model_dump(mode="json", exclude_defaults=True)
    raise UsageError("the launch sets what no recipe can say", "start from a bundled recipe: rlx init")


def _mend(document: dict[str, Any], error: Any) -> None:
    """Fill in what is missing; what cannot be, and what is wrong, goes with the section that cannot be without it."""
    path = [str(part) for part in error["loc"] if not str(part).startswith("<")]
    if key := error.get("ctx", {}).get("key"):
        path = str(key).split(".")
    dotted = ".".join(path)
    if error["type"] == "missing" and dotted in STAND_INS:
        _put(document, path, STAND_INS[dotted])
    elif error["type"] == "missing":
        _drop(document, path[:-1])
    else:
        _drop(document, path)


def _put(document: dict[str, Any], path: list[str], value: object) -> None:
    for part in path[:-1]:
        document = document.setdefault(part, {})
    document[path[-1]] = value


def _drop(document: dict[str, Any], path: list[str]) -> None:
    for part in path[:-1]:
        inner = document.get(part)
        if not isinstance(inner, dict):
            break
        document = inner
        path = path[1:]
    document.pop(path[0], None)
