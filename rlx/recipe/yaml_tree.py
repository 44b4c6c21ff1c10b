"""Read the text of a recipe into a tree with places: the values of YAML 1.2, and errors that help to fix a recipe.

libyaml names the place where reading became impossible, which is often one line below the mistake; the errors name the
mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from yaml import YAMLError

from rlx.recipe.problems import YAML, Problem, RecipeError, SourceLocation, refusal
from rlx.recipe.source import RecipeSource
from rlx.recipe.tree import Node
from rlx.yaml_reader.reader import YamlError, YamlForm, YamlNode, YamlProblem, compose, plain_value

_TAB = "a tab in the indentation; YAML needs spaces"
_INDENTATION = "the indentation does not fit the lines above; keys of one section start in the same column"

# Part of libyaml's problem or context -> our words. The first match wins.
_WORDINGS = (
    ("escape", "a backslash inside \"…\" starts an escape; use '…' for text with backslashes"),
    ("quoted scalar", "a quote is opened here and never closed"),
    ("flow mapping", "a { is opened here and never closed, or a comma is missing or too many"),
    ("flow sequence", "a [ is opened here and never closed, or a comma is missing or too many"),
    ("flow node", "a [ or { is opened here and never closed, or a comma is missing or too many"),
    ("block sequence entries are not allowed", "a list item must start on its own line, below its key"),
    ("mapping keys are not allowed", _INDENTATION),
    ("expected key", _INDENTATION),
    ("block collection", _INDENTATION),
    ("block mapping", _INDENTATION),
    ("document start", _INDENTATION),
    ("'-' indicator", _INDENTATION),
    ("alias", "anchors and aliases are not read; repeat the value, or use `extends`"),
    ("anchor", "anchors and aliases are not read; repeat the value, or use `extends`"),
    ("tag", "tags (!) are not read; quote the value if it is text"),
    ("directive", "a line that starts with % is no recipe"),
    ("block scalar", "text after | or > must be indented below its key"),
)


PlaceOf = Callable[[int], SourceLocation]


def parse(source: RecipeSource) -> tuple[Node, list[Problem]]:
    """Return the tree of a file, and the problems that do not keep the rest from being read.

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
    """Read one value as `--set` takes it: the same YAML, the same limits. Raises RecipeError that names the key."""
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


def explain(error: YAMLError, text: str) -> tuple[int, str]:
    """Return the line (from 1) in which the mistake is, and what to do about it."""
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return 1, "is no YAML text"
    problem = f"{getattr(error, 'context', None) or ''} {getattr(error, 'problem', None) or ''}"
    # What YAML 1.1 calls a line break: libyaml counts all of these.
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)
    index = min(mark.line, len(lines) - 1)
    line = lines[index]
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return index + 1, _TAB
    if "mapping values are not allowed" in problem:
        return _unexpected_colon(lines, index)
    if "cannot start any token" in problem:
        return index + 1, f"a value that starts with {line[mark.column : mark.column + 1]} must be quoted"
    opened: Any = getattr(error, "context_mark", None)
    if "simple key" in problem and opened:
        return _no_colon(lines, opened.line)
    for part, wording in _WORDINGS:
        if part in problem:
            return _last_content(lines, opened.line if opened and "opened here" in wording else index) + 1, wording
    return index + 1, problem.strip()


def _unexpected_colon(lines: list[str], index: int) -> tuple[int, str]:
    """Explain a colon where no key can be: one is missing above, a value holds `: `, or the indentation is too deep."""
    above = _last_content(lines, index - 1)
    if index > 0 and re.fullmatch(r"(- )?[\w.-]+(:\S.*)?", _content(lines[above])):
        return _no_colon(lines, above)
    if re.search(r":\s+\S.*:(\s|$)", _content(lines[index])):
        return index + 1, "a value with a colon and a space in it must be quoted"
    return index + 1, _INDENTATION


def _no_colon(lines: list[str], index: int) -> tuple[int, str]:
    line = _content(lines[index])
    return index + 1, "no space after the colon" if ":" in line else f"no colon after {line[:40]!r}"


def _last_content(lines: list[str], index: int) -> int:
    """Find the last line with content, where a text ends too early."""
    return next((n for n in range(min(index, len(lines) - 1), -1, -1) if _content(lines[n])), index)


def _content(line: str) -> str:
    """Return the line without its comment and the space around it."""
    return re.sub(r"(^|\s)#.*", "", line).strip() if line.strip() else ""


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
