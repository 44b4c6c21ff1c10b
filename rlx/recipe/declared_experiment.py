"""The experiment of a recipe file: its question, and of each arm what it runs and how it is graded, as digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlx.local_files import MOST_SOURCE, read_bytes
from rlx.recipe.local_paths import LOCAL_PATHS
from rlx.recipe.problems import Problem
from rlx.recipe.schema import Experiment, Recipe, Section
from rlx.recipe.tree import Node, plain, settled
from rlx.recipe.wording import explain_all

KEY = "experiment"
# Labels, reasons, trackers, further attempts and names of secrets, and what each run of an arm has of its own.
_APART = {"version", "name", "seed", "waive", "secrets", "track", "retry"}


class _OfFile(Section):
    experiment: Experiment | None = None


@dataclass(frozen=True, slots=True)
class DeclaredArm:
    """`treatment`: the dotted keys it changes. `recipe`, `evaluation`: sha256 of what it runs, and is graded by."""

    name: str
    treatment: tuple[str, ...]
    recipe: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class DeclaredExperiment:
    """`first_seed` is the recipe's own. `origins`: dotted key -> where it was written."""

    section: Experiment
    first_seed: int
    arms: tuple[DeclaredArm, ...]
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
    """Read the section of a recipe file, and say what is wrong with it."""
    node = file.children.get(KEY)
    if node is None or node.value is None:
        return None, []
    tree = settled(Node({KEY: node}, file.place), ())
    try:
        return _OfFile.model_validate(plain(tree)).experiment, []
    except ValidationError as error:
        return None, explain_all(error, file)


def declared_arm(name: str, treatment: Sequence[str], recipe: Recipe) -> DeclaredArm:
    """Name an arm by its content: files of this machine count by what is in them, not by where they lie."""
    written = recipe.model_dump(mode="json", exclude_defaults=True, exclude=_APART)
    whole = recipe.model_dump(mode="json")
    keys = tuple(key for key in treatment if key != "seed")
    return DeclaredArm(name, keys, _digest(_by_content(written)), _digest(_evaluation(whole, keys)))


def _evaluation(document: dict[str, Any], treatment: Sequence[str]) -> dict[str, Any]:
    """All that decides how the arm's answers come about and are graded, as far as a recipe says it.

    Rows count by their path, weights too: their digests are known on the host alone. What an arm does to keys of the
    back-end is its treatment; the others may be about validation.
    """
    document = _by_content(document)
    data, model, evaluation = document["data"], document["model"], document["eval"]
    post = evaluation["post"]
    kept = {
        "data": {key: data[key] for key in ("prompt_key", "max_prompt_tokens", "max_response_tokens")},
        "model": {key: model[key] for key in ("path", "dtype")},
        "overrides": {key: value for key, value in document["overrides"].items() if not _is_changed(key, treatment)},
    }
    if post is not None:
        return {**kept, "post": {**post, "reward": post["reward"] or document["reward"]}}
    rows = {key: data[key] for key in ("val", "val_rows")}
    sampling = {key: evaluation[key] for key in ("n", "temperature", "noise", "metric")}
    generation = {"engine": document["rollout"]["engine"], "reward": document["reward"]}
    return {**kept, **rows, **sampling, **generation}


def _is_changed(override: str, treatment: Sequence[str]) -> bool:
    return any(f"{key}.".startswith(f"overrides.{override}.") for key in treatment)


def _by_content(document: dict[str, Any]) -> dict[str, Any]:
    """The document with digests in place of the paths of this machine; a list of keys changes no run."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    for *above, key in LOCAL_PATHS:
        section: Any = copy
        for name in above:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = None if key == "key_source" else _file_digest(section[key])
    return copy


def _file_digest(path: str) -> str:
    """Empty for a file that cannot be read, of which the rules of the back-end tell."""
    try:
        return hashlib.sha256(read_bytes(Path(path), MOST_SOURCE)).hexdigest()
    except OSError:
        return ""


def _digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
