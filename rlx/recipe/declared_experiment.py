"""Declare the experiment of a recipe file: its question, and digests of what each arm runs and is graded by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from rlx.recipe.first_form import APART, DeclaredArm, Document, by_content, declared_arm, digest
from rlx.recipe.local_paths import LOCAL_PATHS
from rlx.recipe.problems import Problem
from rlx.recipe.schema import Experiment, Section
from rlx.recipe.schema_errors import explain_all
from rlx.recipe.tree import Node, changed, plain, settled
from rlx.renamed_keys import first_names

KEY = "experiment"
# Of the digest, as rlx/model/registration.py numbers them.
_FORM = 2
Arms = Mapping[str, Document]


class _OfFile(Section):
    experiment: Experiment | None = None


@dataclass(frozen=True, slots=True)
class DeclaredExperiment:
    """`first_seed` is the recipe's own. `written`: sha256 of all that the file writes of it, with its arms; empty for
    one that was registered in form 1. `origins`: dotted key -> where it was written.
    """

    section: Experiment
    first_seed: int
    arms: tuple[DeclaredArm, ...]
    written: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of each arm."""
        return tuple(range(self.first_seed, self.first_seed + self.section.seeds))

    @property
    def spare_seeds(self) -> tuple[int, ...]:
        """The seeds that may take the place of one whose run failed by no fault of its own, in this order."""
        after = self.first_seed + self.section.seeds
        return tuple(range(after, after + self.section.spare_seeds))

    @property
    def document(self) -> Mapping[str, Any]:
        """The section with its key, complete with defaults."""
        return {KEY: self.section.model_dump(mode="json")}


def experiment_of(file: Node) -> tuple[Experiment | None, list[Problem]]:
    """Read the section of a recipe file, and return it with its problems."""
    node = file.children.get(KEY)
    if node is None or node.value is None:
        return None, []
    tree = settled(Node({KEY: node}, file.place), ())
    try:
        return _OfFile.model_validate(plain(tree)).experiment, []
    except ValidationError as error:
        return None, explain_all(error, file)


def written(document: Any, tree: Node) -> Any:
    """Return the part of a complete document that was written: the same keys, with values as the schema has them.

    `1` for a number with a fraction is `1.0`, and so are other spellings of one value.
    """
    if isinstance(document, dict) and isinstance(tree.value, dict):
        return {key: written(document[key], child) for key, child in tree.value.items() if key in document}
    return document


def declare(
    file: Node, name: str, control: str | None, section: Experiment, seed: int, base: Document, arms: Arms
) -> DeclaredExperiment:
    """Include every arm, because the question is about all of them, whichever are launched.

    `seed` is the recipe's own; `base` and `arms`: what the recipe without arms writes, and each arm merged into it.
    """
    asked = written(section.model_dump(mode="json"), settled(file.children[KEY], ()))
    document = {
        "form": _FORM,
        "name": name,
        "control": control,
        "seed": base.get("seed"),
        **first_names({KEY: asked}),
        "arms": {arm: _written_arm(base, own) for arm, own in arms.items()},
    }
    declared = tuple(
        declared_arm(arm, first_names(base), first_names(own), is_system=section.is_of_systems)
        for arm, own in arms.items()
    )
    return DeclaredExperiment(section, seed, declared, digest(document))


def _written_arm(base: Document, own: Document) -> dict[str, Any]:
    """Return all that an arm writes, merged into the recipe, and the keys by which it differs from that."""
    recipe = first_names(by_content(own, LOCAL_PATHS))
    # To accept a finding changes nothing of the run.
    before, after = ({**first_names(one), "waive": None} for one in (base, own))
    return {
        "treatment": [key for key in changed(before, after) if key != "seed"],
        "recipe": {key: value for key, value in recipe.items() if key not in APART},
    }
