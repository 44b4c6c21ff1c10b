"""Hold public launches against their recipes: what is lost of their keys, and what differs, each with its reason.

python -m benchmarks.conformance              print the tables; exit 1 where a bound is broken
python -m benchmarks.conformance --write      put them into docs/dev/conformance.md
python -m benchmarks.conformance --compose    also let Hydra compose each, with the configuration of its version
python -m benchmarks.conformance --scripts FOLDER    read the scripts themselves (benchmarks/public_scripts.py)
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.page_tables import out_of_date, row
from rlx.api.imported_recipe import FOREIGN, ImportedRecipe, KeyFate, keys_part, recipe_from_keys
from rlx.errors import RlxError
from rlx.recipe import ResolvedRecipe, load_recipe
from rlx.recipe.source import RecipeSource
from rlx.yaml_reader.hydra import read_word

REPOSITORY = Path(__file__).parent.parent
FOLDER = REPOSITORY / "tests/cases/conformance"
PAGE = "dev/conformance"
# Of a launch's keys, so many per cent may differ, or so many of a short one.
MOST_PERCENT, MOST_OF_A_SHORT_ONE = 15, 5
# Versions whose configuration is in a wheel; the DAPO recipe's own is in no package.
RELEASED = ("0.6.1", "0.7.1", "0.8.0", "0.9.1")
AGAIN = "set again further on, and the last one counts"


@dataclass(frozen=True)
class Launch:
    """A public launch: its script, and what it sets. `version` is that of its back-end, "" where it does not say."""

    repository: str
    commit: str
    script: str
    version: str
    facts: dict[str, Any]

    @property
    def keys(self) -> tuple[tuple[str, object], ...]:
        words = (read_word(word) for word in self.facts.get("words", ()))
        return tuple(word for word in words if word) or tuple(self.facts.get("keys", {}).items())

    @cached_property
    def imported(self) -> ImportedRecipe | None:
        """None: a trainer that no recipe starts, which `refusal` names."""
        return None if isinstance(self._answer, RlxError) else self._answer

    @property
    def refusal(self) -> str:
        return self._answer.message if isinstance(self._answer, RlxError) else ""

    @cached_property
    def _answer(self) -> ImportedRecipe | RlxError:
        facts, name = self.facts, Path(self.script).stem
        try:
            return recipe_from_keys(
                facts["program"],
                self.keys,
                facts.get("environment"),
                name=name,
                config_name=facts.get("config_name", ""),
                device=facts.get("device", ""),
                version=self.version,
            )
        except RlxError as refused:
            return refused

    @cached_property
    def fates(self) -> tuple[KeyFate, ...]:
        """What became of each key; one that the script itself sets again counts once, with its last value."""
        found = self.imported.keys if self.imported else ()
        return tuple(fate for fate in found if fate.reason != AGAIN)

    @property
    def lost(self) -> list[KeyFate]:
        """Keys that the recipe does not render, and that its back-end has no reason to leave to rlx."""
        part = keys_part(self.facts["program"])
        return [fate for fate in self.fates if not fate.is_rendered and part.bare(fate.key) not in part.OWN]

    @property
    def differing(self) -> list[KeyFate]:
        return [fate for fate in self.fates if not fate.is_equal]

    @property
    def explained(self) -> list[KeyFate]:
        """Differing keys that a finding names with its reason, or as a fork's."""
        assert self.imported is not None
        is_named = any(finding.id == "RLX009" for finding in self.imported.findings)
        said = [finding.message for finding in self.imported.findings if finding.id in ("RLX003", "RLX004")]
        return [
            fate
            for fate in self.differing
            if (fate.reason == FOREIGN and is_named)
            or any(text.startswith(f"{fate.key}: ") and fate.reason in text for text in said)
        ]

    @property
    def is_within_bounds(self) -> bool:
        most = max(MOST_OF_A_SHORT_ONE, len(self.fates) * MOST_PERCENT // 100)
        # Keys that only a fork has are passed on as they are; there may be any number of them.
        known = [fate for fate in self.differing if fate.reason != FOREIGN]
        return not self.lost and len(known) <= most and len(self.explained) == len(self.differing)

    @property
    def resolved(self) -> ResolvedRecipe:
        assert self.imported is not None
        file = load_recipe(RecipeSource(self.script, REPOSITORY, self.imported.text))
        return file.resolve(file.arms[0])


def launches() -> Iterator[Launch]:
    for path in sorted(FOLDER.glob("*.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        for script, facts in held["launches"].items():
            yield Launch(held["repository"], held["commit"], script, held["version"], facts)


def composed(launch: Launch) -> str:
    """What Hydra says against the recipe's launch with the configuration of its version; "" if it takes it."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from rlx.backends.verl.checks import rendering_of
    from rlx.backends.verl.overrides import chosen
    from tests.wheels import verl_folder

    rendering = rendering_of(launch.resolved)
    arguments = [override.argument() for override in chosen(rendering) if not override.key.startswith("hydra.")]
    with initialize_config_dir(str(verl_folder(rendering.table.version) / "trainer/config"), version_base=None):
        try:
            compose(rendering.config_name or "ppo_trainer", arguments)
        except (HydraException, OmegaConfBaseException) as problem:
            return str(problem).splitlines()[0]
    return ""


def tables(found: Sequence[Launch]) -> dict[str, str]:
    return {name: make(found) for name, make in _TABLES.items()}


def _totals(found: Sequence[Launch]) -> str:
    taken = [launch for launch in found if launch.imported]
    groups = dict.fromkeys((launch.repository, launch.commit) for launch in taken)
    rows = [
        row(*group, *_sums([each for each in taken if (each.repository, each.commit) == group])) for group in groups
    ]
    last = row("all", "", *_sums(taken))
    return "\n".join([*_head(("repository", "commit", "launches", *_COUNTED)), *rows, last])


def _head(names: Sequence[str]) -> tuple[str, str]:
    return row(*names), "|" + "---|" * len(names)


def _sums(group: Sequence[Launch]) -> list[int]:
    return [len(group), *(sum(len(part(each)) for each in group) for part in _COUNTED.values())]


_COUNTED: dict[str, Callable[[Launch], Sequence[KeyFate]]] = {
    "keys": lambda launch: launch.fates,
    "lost": lambda launch: launch.lost,
    "differing": lambda launch: launch.differing,
    "explained": lambda launch: launch.explained,
}


def _reasons(found: Sequence[Launch]) -> str:
    counted = Counter((fate.key.lstrip("+~"), fate.reason) for each in found for fate in each.differing)
    rows = [row(f"`{key}`", number, reason) for (key, reason), number in counted.most_common()]
    return "\n".join([*_head(("key", "launches", "reason")), *rows])


def _rows(found: Sequence[Launch]) -> str:
    head = _head(("launch", "verl", *_COUNTED))
    return "\n".join([*head, *(_row(each) for each in found if each.imported)])


def _row(launch: Launch) -> str:
    assert launch.imported is not None
    backend = launch.imported.document["backend"]
    version = backend["version"] if backend.get("kind", "verl") == "verl" else "MindSpeed-RL"
    numbers = (len(part(launch)) for part in _COUNTED.values())
    return row(f"{launch.repository} {launch.commit} {launch.script}", version, *numbers)


_TABLES = {"totals": _totals, "reasons": _reasons, "launches": _rows}


def main(arguments: Sequence[str]) -> int:
    if "--scripts" in arguments:
        return read_scripts(arguments)
    found = [*launches()]
    if "--write" in arguments:
        out_of_date(PAGE, lambda _: tables(found), write=True)
    else:
        print("\n\n".join(tables(found).values()))
    for words, number in Counter(each.refusal for each in found if each.imported is None).items():
        print(f"refused by name: {number} launches: {words}")
    broken = [each for each in found if each.imported and not each.is_within_bounds]
    for each in broken:
        print(f"broken: {each.script}: {len(each.lost)} lost, {len(each.differing)} of {len(each.fates)} differ")
    return int(bool(broken) or ("--compose" in arguments and not compose_all(found)))


def read_scripts(arguments: Sequence[str]) -> int:
    """Read the scripts below the folder that follows `--scripts`. Returns 1 where a value is wrong."""
    from benchmarks import public_scripts

    found = list(public_scripts.readings(Path(arguments[arguments.index("--scripts") + 1])))
    for each in found if "--compose" in arguments else ():
        if each.imported and (refused := public_scripts.compose_both(each)):
            print(f"not composed: {each.path}: {refused}")
    made = {"scripts": public_scripts.table(found), "refusals": public_scripts.reasons(found)}
    print("\n\n".join(made.values()))
    for each in found:
        for line in each.wrong:
            print(f"wrong: {each.repository} {each.path}: {line}")
        if each.kind == "not read":
            print(f"not read: {each.repository} {each.path}: {each.reason}")
    if "--write" in arguments:
        out_of_date(PAGE, lambda _: made, write=True)
    return int(any(each.wrong for each in found))


def compose_all(found: Sequence[Launch]) -> bool:
    """Print what Hydra refuses, but for keys that the launch itself sets and its version lacks."""
    asked = [each for each in found if _starts_from_a_release(each)]
    said = [(each, words) for each in asked if (words := composed(each))]
    own = [(each, words) for each, words in said if not _names_a_setting(words, each)]
    print(
        f"Hydra composes {len(asked) - len(said)} of {len(asked)}; {len(said) - len(own)} set what their version lacks"
    )
    for each, words in own:
        print(f"{each.script}: {words}")
    return not own


def _names_a_setting(words: str, launch: Launch) -> bool:
    """Tell whether the words name a key of the launch, or a part of the configuration that it asks for."""
    return any(key.lstrip("+~") in words or f"/{value}'" in words for key, value in launch.keys)


def _starts_from_a_release(launch: Launch) -> bool:
    backend = launch.imported.document["backend"] if launch.imported else {}
    return backend.get("version") in RELEASED and "trainer" not in backend and "config_name" not in backend


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
