"""Recipe text to a tree with places: the values of YAML 1.2, and refusals that speak of recipes."""

from __future__ import annotations

from collections.abc import Callable

from rlx.recipe.problems import YAML, Problem, RecipeError, SourceLocation, refusal
from rlx.recipe.source import Source
from rlx.recipe.tree import Node
from rlx.recipe.yaml_errors import explain
from rlx.yaml_reader.reader import YamlError, YamlForm, YamlNode, YamlProblem, compose, plain_value

FORM = YamlForm(
    what="recipe",
    file="recipe file",
    most_nodes=10_000,
    most_levels=32,
    scalar=plain_value,
    anchor="{name}: anchors and aliases are not read; repeat the value, or use `extends`",
    merge="merge keys (<<) are not read; use `extends`",
    syntax=explain,
)

PlaceOf = Callable[[int], SourceLocation]


def parse(source: Source) -> tuple[Node, list[Problem]]:
    """The tree of a file, and the problems that do not keep the rest from being read.

    Raises RecipeError for what does: text that is no YAML, tags, aliases, limits, several documents, no map on top.
    """
    node, problems = _read(source.text, lambda line: SourceLocation(source.name, line))
    if node.value is None:
        raise refusal(node.place, "is empty; `rlx init` writes a recipe to start from")
    if not isinstance(node.value, dict):
        spaced = "; is there a space after each colon?" if ":" in str(node.value) else ""
        raise refusal(node.place, f"must be a map of `key: value` lines{spaced}")
    return node, problems


def parse_value(text: str, place: SourceLocation, key: str) -> Node:
    """One value as `--set` takes it: the same YAML, the same limits. Raises RecipeError that names the key."""
    try:
        node, problems = _read(text, lambda _line: place)
    except RecipeError as error:
        problems = list(error.problems)
    if problems:
        raise RecipeError(Problem(place, problem.key or key, problem.text, problem.id) for problem in problems)
    return node


def _read(text: str, place_of: PlaceOf) -> tuple[Node, list[Problem]]:
    def worded(problem: YamlProblem) -> Problem:
        return Problem(place_of(problem.line), problem.key, problem.text, YAML)

    try:
        root, problems = compose(text, FORM)
    except YamlError as error:
        raise RecipeError(map(worded, error.problems)) from None
    return _tree(root, place_of) if root else Node(None, place_of(1)), [worded(problem) for problem in problems]


def _tree(node: YamlNode, place_of: PlaceOf) -> Node:
    place = place_of(node.line)
    if node.id == "mapping":
        pairs = ((key, _tree(value, place_of)) for key, value in node.value)
        return Node({key.value: Node(value.value, place_of(key.line)) for key, value in pairs}, place)
    return Node([_tree(item, place_of) for item in node.value] if node.id == "sequence" else node.value, place)
