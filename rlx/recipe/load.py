"""Loads recipe files: reads, merges, validates, and resolves arms. Every problem of a file is reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlx.errors import UsageError
from rlx.recipe.arms import arms_of, control_of, without_file_keys
from rlx.recipe.bundled import find_recipe
from rlx.recipe.declared_experiment import DeclaredExperiment, declare, experiment_of, written
from rlx.recipe.inherit import read_chain
from rlx.recipe.old_names import OldName
from rlx.recipe.origins import origins_of
from rlx.recipe.plain_secrets import plain_secrets
from rlx.recipe.problems import SHOWN_PROBLEMS, YAML, Problem, RecipeError, SourceLocation
from rlx.recipe.schema import Aqn, Experiment, Recipe
from rlx.recipe.sets import read_sets
from rlx.recipe.source import STDIN, Source
from rlx.recipe.tree import Node, changed, in_arm, merge, nearest, plain, settled
from rlx.recipe.wording import dotted, explain_all

ONLY_ARM = "main"
# What stands here is the back-end's or the reward function's, and null may mean something to them.
_VERBATIM = (("overrides",), ("reward", "kwargs"))


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """One arm with one seed, complete.

    `treatment`: the dotted leaf keys by which the arm differs from the recipe without it. `origins`: dotted leaf key ->
    `recipe.yaml:12`, `arm aqn, recipe.yaml:40`, `--set`, `--seed` or `default`. `document`: the recipe as JSON-able
    data, itself a valid recipe. `folder`: where the recipe file lies. `watched`: of an arm without noise, the noise
    that rlx brings to another arm of the file, the first that has some: its layers are watched here. `sendable`:
    private files that the person named, because a recipe may come from others and does not decide that they travel.
    `experiment`: what the file asks, of all its arms; None: nothing. `old_names`: where keys stand by an old name.
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
        """The complete recipe of one arm. Raises UsageError for an unknown arm or an impossible seed."""
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
        origins = {**origins_of(document, tree, self.folder), **about}
        watched = None if recipe.aqn else self._noise_of_another_arm()
        known = (recipe, arm, self.control, treatment, origins, self.folder, document, watched)
        old_names = tuple(one for one in self.old_names if one.arm in ("", arm))
        return ResolvedRecipe(*known, experiment=self.experiment, old_names=old_names)

    def _noise_of_another_arm(self) -> Aqn | None:
        of_arms = (_validated(tree).aqn for tree in self._trees.values())
        return next((aqn for aqn in of_arms if aqn and aqn.provider == "payload"), None)


def load_recipe(path: Path | str | Source, sets: Sequence[str] = ()) -> RecipeFile:
    """Load a recipe file, one that comes with rlx by its name, standard input (`-`) or a text, with `--set` options.

    Options beat the arms. Raises UsageError; where the content is at fault it is a RecipeError with every problem of
    the file and of all its arms.
    """
    path = path if isinstance(path, Source) else find_recipe(path)
    of_files, old_names, problems = read_chain(path)
    known_arms = of_files.children["arms"].children if "arms" in of_files.children else ()
    options, old_in_options, of_options = read_sets(sets, known_arms)
    file = merge(of_files, options)
    arms, arm_problems = arms_of(file)
    unreadable = bool(arm_problems) and not arms
    control, control_problems = (None, []) if unreadable else control_of(file, arms)
    # The options lie on top of the arm, so they are merged a second time.
    base, over = without_file_keys(of_files), without_file_keys(options)
    trees = {name: merge(merge(base, in_arm(arm, name)), over) for name, arm in arms.items()}
    base = merge(base, over)
    asked, question_problems = experiment_of(file)
    problems += [*of_options, *arm_problems, *control_problems, *question_problems, *_secrets(_question(file))]
    problems += _all_problems(base, trees.values())
    if problems:
        raise RecipeError(_once_a_place(problems))
    trees = trees or {ONLY_ARM: base}
    name, shown = _validated(base).name, path.name if isinstance(path, Source) else str(path)
    read = RecipeFile(name, shown, tuple(trees), control, trees, base, old_names=(*old_names, *old_in_options))
    return replace(read, experiment=_declared(asked, file, read)) if asked else read


def _question(file: Node) -> Node:
    """The section that is the file's own, and of no arm."""
    return Node({key: node for key, node in file.children.items() if key == "experiment"}, file.place)


def _declared(asked: Experiment, file: Node, read: RecipeFile) -> DeclaredExperiment:
    arms = {name: _written(tree) for name, tree in read._trees.items()}
    seed, base = _validated(read._base).seed, _written(read._base)
    found = declare(file, read.name, read.control, asked, seed, base, arms)
    return replace(found, origins=origins_of(found.document, file, read.folder))


def _written(tree: Node) -> dict[str, Any]:
    """Return the recipe as it was written, without the defaults that complete it."""
    document: dict[str, Any] = written(_validated(tree).model_dump(mode="json"), settled(tree, _VERBATIM))
    return document


def _all_problems(base: Node, arms: Iterable[Node]) -> list[Problem]:
    """Collect problems of the recipe without arms, then of each arm; stop when nobody would read more."""
    problems: list[Problem] = []
    for tree in (base, *arms):
        if len(problems) >= SHOWN_PROBLEMS:
            break
        problems += _problems(tree)
    return problems


def _problems(tree: Node) -> list[Problem]:
    try:
        _validated(tree)
    except RecipeError as error:
        return [*_secrets(tree), *error.problems]
    return _secrets(tree)


def _secrets(tree: Node) -> list[Problem]:
    """The secrets that stand in a tree."""
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
