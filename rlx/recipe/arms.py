"""The arms of a recipe file: partial recipes, each of which declares one treatment."""

from __future__ import annotations

import difflib

from pydantic_core import PydanticCustomError

from rlx.recipe.fields import check_name
from rlx.recipe.problems import Problem
from rlx.recipe.tree import Node, without
from rlx.recipe.wording import FILE_KEYS, describe

# An arm cannot change what the recipe is.
_NOT_IN_ARMS = (*FILE_KEYS, "name", "version")
_ARM_LIMIT = 64


def without_file_keys(tree: Node) -> Node:
    """The recipe that is common to all arms."""
    return without(tree, *FILE_KEYS)


def arms_of(file: Node) -> tuple[dict[str, Node], list[Problem]]:
    """Arm name -> partial recipe, in the order of the file, and what is wrong with how they are declared."""
    declared = file.children.get("arms")
    if declared is None or declared.value is None:
        return {}, []
    if not isinstance(declared.value, dict):
        text = f"must be a map of arm names and partial recipes, found {describe(declared.value)}"
        return {}, [Problem(declared.place, "arms", text)]
    if len(declared.value) > _ARM_LIMIT:
        return {}, [
            Problem(declared.place, "arms", f"{len(declared.value)} arms; at most {_ARM_LIMIT} can be launched")
        ]
    arms: dict[str, Node] = {}
    problems: list[Problem] = []
    for name, node in declared.value.items():
        # `baseline:` with nothing behind it is an arm that changes nothing.
        arms[name] = without(node, *_NOT_IN_ARMS)
        problems += [*_name_problems(name, node), *_content_problems(name, node)]
    return arms, problems


def control_of(file: Node, arms: dict[str, Node]) -> tuple[str | None, list[Problem]]:
    """The arm that the others are compared with, and what is wrong with its name."""
    declared = file.children.get("control")
    if declared is None or declared.value is None:
        return None, []
    if isinstance(declared.value, str) and declared.value in arms:
        return declared.value, []
    if not arms:
        if "arms" not in file.children and difflib.get_close_matches("arms", file.children, n=1):
            return None, []  # `arm:` is reported where it stands
        return None, [Problem(declared.place, "control", "the recipe has no arms to name one of")]
    near = difflib.get_close_matches(str(declared.value)[:60], arms, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; the arms are {', '.join(arms)}"
    return None, [Problem(declared.place, "control", f"there is no such arm, found {describe(declared.value)}{hint}")]


def _name_problems(name: str, node: Node) -> list[Problem]:
    if name == "all":
        return [Problem(node.place, "arms.all", "all means every arm on the command line; choose another name")]
    try:
        check_name(name)
    except PydanticCustomError as error:
        return [Problem(node.place, f"arms.{name[:80]}", f"the name of an arm {error.message()}")]
    return []


def _content_problems(name: str, node: Node) -> list[Problem]:
    if node.value is not None and not isinstance(node.value, dict):
        return [Problem(node.place, f"arms.{name}", f"must be a partial recipe, found {describe(node.value)}")]
    return [
        Problem(child.place, f"arms.{name}.{key}", "an arm cannot change this; it belongs to the recipe itself")
        for key, child in node.children.items()
        if key in _NOT_IN_ARMS
    ]
