"""Load recipe files: read what they extend, merge, validate, and resolve arms, with the origin of each value.

Every problem of a file is reported at once.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from rlx.errors import UsageError
from rlx.recipe.bundled import find_recipe
from rlx.recipe.declared_experiment import DeclaredExperiment, declare, experiment_of, written
from rlx.recipe.fields import check_name
from rlx.recipe.local_paths import home_expanded, rooted
from rlx.recipe.plain_secrets import plain_secrets
from rlx.recipe.problems import (
    OPEN,
    SCHEMA,
    SHOWN_PROBLEMS,
    UNDECIDED,
    YAML,
    Problem,
    RecipeError,
    SourceLocation,
    refusal,
)
from rlx.recipe.schema import Aqn, Experiment, Recipe
from rlx.recipe.schema_errors import FILE_KEYS, describe, dotted, explain_all
from rlx.recipe.sets import read_sets
from rlx.recipe.source import STDIN, RecipeSource, is_file, read_source
from rlx.recipe.tree import (
    Node,
    OldName,
    changed,
    find,
    in_arm,
    leaves,
    merge,
    nearest,
    plain,
    settled,
    with_new_names,
    without,
)
from rlx.recipe.yaml_tree import parse

ONLY_ARM = "main"
# What is here is the back-end's or the reward function's, and null may mean something to them.
_VERBATIM = (("overrides",), ("reward", "kwargs"))
_DEPTH_LIMIT = 10
# An arm cannot change what the recipe is.
_NOT_IN_ARMS = (*FILE_KEYS, "name", "version")
_ARM_LIMIT = 64
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """One arm with one seed, complete.

    `treatment`: the dotted leaf keys by which the arm differs from the recipe without it. `origins`: dotted leaf key ->
    `recipe.yaml:12`, `arm aqn, recipe.yaml:40`, `--set`, `--seed` or `default`. `document`: the recipe as JSON-able
    data, itself a valid recipe. `folder`: the folder of the recipe file. `watched`: of an arm without noise, the noise
    that rlx brings to another arm of the file, the first that has some: its layers are observed here. `sendable`:
    private files that the person named, because a recipe may come from others and does not decide that they travel.
    `experiment`: what the file asks, of all its arms; None: nothing. `old_names`: where keys have an old name.
    """

    recipe: Recipe
    arm: str
    control: str | None
    treatment: tuple[str, ...]
    origins: Mapping[str, str]
    folder: Path
    document: Mapping[str, Any]
    watched: Aqn | None = None
    sendable: tuple[str, ...] = ()
    experiment: DeclaredExperiment | None = None
    old_names: tuple[OldName, ...] = ()


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A valid recipe file. `arms` is ("main",) for a recipe without arms."""

    name: str
    path: str
    arms: tuple[str, ...]
    control: str | None
    _trees: Mapping[str, Node]
    _base: Node
    experiment: DeclaredExperiment | None = None
    old_names: tuple[OldName, ...] = ()

    @property
    def folder(self) -> Path:
        return Path.cwd() if self.path == STDIN else Path(self.path).parent

    def resolve(self, arm: str, seed: int | None = None) -> ResolvedRecipe:
        """Return the complete recipe of one arm. Raises UsageError for an unknown arm or an impossible seed."""
        if arm not in self._trees:
            raise UsageError(f"{self.path}: has no arm {arm!r}", f"its arms are {', '.join(self.arms)}")
        tree, base = self._trees[arm], self._base
        if seed is not None:
            sown = Node({"seed": Node(seed, SourceLocation("--seed"))}, SourceLocation("--seed"))
            tree, base = merge(tree, sown), merge(base, sown)
        recipe = _validated(tree)
        document = recipe.model_dump(mode="json")
        # To accept a finding changes nothing of the run.
        before = _validated(base).model_dump(mode="json") | {"waive": document["waive"]}
        treatment = changed(before, document)
        about = self.experiment.origins if self.experiment else {}
        origins = {**_origins_of(document, tree, self.folder), **about}
        watched = None if recipe.aqn else self._noise_of_another_arm()
        known = (recipe, arm, self.control, treatment, origins, self.folder, document, watched)
        old_names = tuple(one for one in self.old_names if one.arm in ("", arm))
        return ResolvedRecipe(*known, experiment=self.experiment, old_names=old_names)

    def _noise_of_another_arm(self) -> Aqn | None:
        of_arms = (_validated(tree).aqn for tree in self._trees.values())
        return next((aqn for aqn in of_arms if aqn and aqn.provider == "payload"), None)


def load_recipe(path: Path | str | RecipeSource, sets: Sequence[str] = ()) -> RecipeFile:
    """Load a recipe file, one that comes with rlx by its name, standard input (`-`) or a text, with `--set` options.

    Options beat the arms. Raises UsageError; where the content is at fault it is a RecipeError with every problem of
    the file and of all its arms.
    """
    path = path if isinstance(path, RecipeSource) else find_recipe(path)
    of_files, old_names, problems = _read_chain(path)
    known_arms = of_files.children["arms"].children if "arms" in of_files.children else ()
    options, old_in_options, of_options = read_sets(sets, known_arms)
    file = merge(of_files, options)
    arms, arm_problems = _arms_of(file)
    unreadable = bool(arm_problems) and not arms
    control, control_problems = (None, []) if unreadable else _control_of(file, arms)
    # The options come on top of the arm, so they are merged a second time.
    base, over = _without_file_keys(of_files), _without_file_keys(options)
    trees = {name: merge(merge(base, in_arm(arm, name)), over) for name, arm in arms.items()}
    base = merge(base, over)
    asked, question_problems = experiment_of(file)
    problems += [*of_options, *arm_problems, *control_problems, *question_problems]
    # The section of the experiment is the file's own, and of no arm.
    own = {key: node for key, node in file.children.items() if key == "experiment"}
    problems += _secrets(Node(own, file.place))
    problems += _all_problems(base, trees.values())
    if problems:
        raise RecipeError(_once_a_place(problems))
    trees = trees or {ONLY_ARM: base}
    name, shown = _validated(base).name, path.name if isinstance(path, RecipeSource) else str(path)
    read = RecipeFile(name, shown, tuple(trees), control, trees, base, old_names=(*old_names, *old_in_options))
    return replace(read, experiment=_declared(asked, file, read)) if asked else read


def _declared(asked: Experiment, file: Node, read: RecipeFile) -> DeclaredExperiment:
    arms = {name: _written(tree) for name, tree in read._trees.items()}
    seed, base = _validated(read._base).seed, _written(read._base)
    found = declare(file, read.name, read.control, asked, seed, base, arms)
    return replace(found, origins=_origins_of(found.document, file, read.folder))


def _written(tree: Node) -> dict[str, Any]:
    """Return the recipe as it was written, without the defaults that complete it."""
    document: dict[str, Any] = written(_validated(tree).model_dump(mode="json"), settled(tree, _VERBATIM))
    return document


def _all_problems(base: Node, arms: Iterable[Node]) -> list[Problem]:
    """Collect problems of the recipe without arms, then of each arm; stop when there is more than a reader needs."""
    problems: list[Problem] = []
    for tree in (base, *arms):
        if len(problems) >= SHOWN_PROBLEMS:
            break
        problems += _problems(tree)
    return problems


def _problems(tree: Node) -> list[Problem]:
    undecided = _undecided(tree)
    found = [*_secrets(tree), *undecided]
    try:
        _validated(tree)
    except RecipeError as error:
        named = {problem.key for problem in undecided}
        found += [problem for problem in error.problems if problem.key not in named]
    return found


def _undecided(tree: Node) -> list[Problem]:
    """Return the values that have still to be written."""
    text = f"{UNDECIDED} stands for a value that only you know: write it"
    return [
        Problem(nearest(tree, path).place, dotted(path), text, OPEN)
        for path, value in leaves(plain(tree))
        if value == UNDECIDED
    ]


def _secrets(tree: Node) -> list[Problem]:
    """Return the secrets that a tree holds in plain text."""
    return [Problem(nearest(tree, path).place, dotted(path), text) for path, text in plain_secrets(plain(tree))]


def _validated(tree: Node) -> Recipe:
    try:
        return Recipe.model_validate(plain(settled(tree, _VERBATIM)))
    except ValidationError as error:
        raise RecipeError(explain_all(error, tree)) from None


def _once_a_place(problems: Sequence[Problem]) -> list[Problem]:
    """Each problem once, in the order of the files; none that only follows from a value that could not be read."""
    unread = {(problem.place.file, problem.place.line) for problem in problems if problem.id == YAML}
    once = dict.fromkeys(
        problem for problem in problems if problem.id == YAML or (problem.place.file, problem.place.line) not in unread
    )
    return sorted(once, key=lambda problem: (problem.place.file, problem.place.line))


def _read_chain(path: Path | str | RecipeSource) -> tuple[Node, list[OldName], list[Problem]]:
    """Merge a recipe file onto the files that it extends; return the tree with the old names and problems of all files.

    Raises UsageError for a file that cannot be read, a cycle, or more than ten files.
    """
    chain: list[Node] = []
    old_names: list[OldName] = []
    problems: list[Problem] = []
    seen: list[Path] = []
    following: Path | str | RecipeSource | None = path
    while following is not None:
        source = following if isinstance(following, RecipeSource) else read_source(following)
        if not isinstance(following, RecipeSource) and str(following) != STDIN:
            seen.append(Path(following).resolve())
        tree, found = parse(source)
        named, old, twice = with_new_names(tree)
        problems += [*found, *twice]
        old_names += old
        chain.append(rooted(without(named, "extends"), source.folder))
        following = _extended(tree, source, seen)
    place = chain[0].place
    merged = chain.pop()
    while chain:
        merged = merge(merged, chain.pop())
    return Node(merged.value, place), old_names, problems


def _extended(tree: Node, source: RecipeSource, seen: list[Path]) -> Path | None:
    """Return the file that this one extends, relative to its folder."""
    named = tree.children.get("extends")
    if named is None or named.value is None:
        return None
    if not isinstance(named.value, str):
        raise refusal(named.place, "must be the path of one recipe file", "extends", SCHEMA)
    path = source.folder / home_expanded(named.value)
    if not is_file(path):
        raise refusal(named.place, f"there is no file {path}", "extends", SCHEMA)
    if path.resolve() in seen:
        raise refusal(named.place, f"{named.value} extends itself, directly or through others", "extends", SCHEMA)
    if len(seen) >= _DEPTH_LIMIT:
        raise refusal(named.place, f"more than {_DEPTH_LIMIT} files extend one another", "extends", SCHEMA)
    return path


def _without_file_keys(tree: Node) -> Node:
    """Return the recipe that is common to all arms."""
    return without(tree, *FILE_KEYS)


def _arms_of(file: Node) -> tuple[dict[str, Node], list[Problem]]:
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


def _control_of(file: Node, arms: dict[str, Node]) -> tuple[str | None, list[Problem]]:
    """Return the arm that the others are compared with, and what is wrong with its name."""
    declared = file.children.get("control")
    if declared is None or declared.value is None:
        return None, []
    if isinstance(declared.value, str) and declared.value in arms:
        return declared.value, []
    if not arms:
        if "arms" not in file.children and difflib.get_close_matches("arms", file.children, n=1):
            return None, []  # `arm:` is reported at its place
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


def _origins_of(document: Mapping[str, Any], tree: Node, folder: Path) -> dict[str, str]:
    """Dotted leaf key -> where it was written, files relative to the folder of the recipe."""
    return {".".join(path): _origin(path, value, tree, folder) for path, value in leaves(document)}


def _origin(path: Sequence[str], value: Any, tree: Node, folder: Path) -> str:
    node = find(tree, path)
    # `epochs: null` was written too, but the value that counts is the default.
    if node is None or (node.value is None and value is not None):
        return DEFAULT
    return _short(node.place, folder)


def _short(place: SourceLocation, folder: Path) -> str:
    where = str(SourceLocation(_relative(place.file, folder) if place.line else place.file, place.line))
    return f"arm {place.arm}, {where}" if place.arm else where


@lru_cache(maxsize=64)
def _relative(file: str, folder: Path) -> str:
    """Return the file relative to the folder. Standard input is no file: it has no folder to be relative to."""
    return os.path.relpath(file, folder) if Path(file).parent != Path() else file
