"""Make a recipe of an existing launch, with arms of further ones, and write it into a new file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import UsageError
from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.api.found_launch import FoundLaunch
    from rlx.api.imported_recipe import ImportedRecipe

CONTROL = "baseline"
_LONGEST_ARM = 40
# In these a null is a value, so what an arm does not have must not stand in what all share.
_MAPS = ("overrides", "env")
_OPEN = "made of what its environment has where it starts, which a recipe's text cannot follow"


@dataclass(frozen=True, slots=True)
class RecipeFrom:
    """The text of the recipe; what each launch became, the control first; the file if it was `written`."""

    text: str
    arms: Mapping[str, ImportedRecipe]
    written: Path | None = None


def recipe_from(
    source: str,
    target: Path | str | None = None,
    *,
    arms: Mapping[str, str] | None = None,
    version: str = "",
) -> RecipeFrom:
    """Make a recipe of a script, a line, a configuration or a log; write it into `target`, a new file, if one is named.

    `arms`: a name and a source each, of which what differs becomes an arm; `source` is then the control. `version` is
    the back-end's where it is known. Nothing is run. Raises UsageError for what starts no training that rlx knows, and
    where `target` exists already.
    """
    from rlx.recipe.bundled import write_new

    path = None if target is None else Path(target)
    if path is not None and path.exists():
        raise UsageError(f"{path}: exists already, nothing was written", "name another file, or move this one")
    is_path = "\n" not in source and " " not in source and source != "-"
    name = Path(source).stem if is_path else "imported"
    if path is not None and path.stem != "recipe":
        name = path.stem
    made = _arms_of(source, name, version)
    for arm, other in (arms or {}).items():
        if arm in made:
            raise UsageError(f"--arm {arm}: is there twice", f"name each arm once; {CONTROL} is that of --from")
        of_other = _arms_of(other, name, version or str(made[CONTROL].document["backend"]["version"]))
        if len(of_other) > 1:
            raise UsageError(
                f"--arm {arm}: {other} launches {len(of_other)} variants", "name a script or a line that launches one"
            )
        made[arm] = of_other[CONTROL]
    sources = (source, *(arms or {}).values())
    shown = (
        "a line" if re.search(r"\s", one) else "standard input" if one == "-" else Path(one).name for one in sources
    )
    text = f"# Made of {', '.join(shown)} by rlx init --from.\n{_text(made)}"
    _check(text, tuple(made) if len(made) > 1 else ())
    if path is not None:
        write_new({path: text})
    return RecipeFrom(text, made, path)


def _arms_of(source: str, name: str, version: str) -> dict[str, ImportedRecipe]:
    """Return what a source launches, the control first: launches that differ in more than the seed are arms."""
    from rlx.api.found_launch import launch_of

    found = launch_of(source)
    first = _imported(found, name, version)
    version = version or str(first.document["backend"]["version"])
    arms: list[tuple[ImportedRecipe, list[int]]] = []
    for one in (first, *(_imported(each, name, version) for each in found.others)):
        seed = int(one.document.get("seed", 1))
        same = next((seeds for arm, seeds in arms if _without_seed(arm) == _without_seed(one)), None)
        if same is None:
            arms.append((one, [seed]))
        elif seed not in same:
            same.append(seed)
    seeds = list(dict.fromkeys(seed for _, seeds in arms for seed in seeds))
    if len(arms) > 1 or len(seeds) > 1:
        first = replace(first, findings=(*first.findings, _several(1 + len(found.others), len(arms), seeds)))
    control = _without_seed(first)
    made = {CONTROL: first}
    for one, _ in arms[1:]:
        own_seed = {key: value for key, value in first.document.items() if key == "seed"}
        made[_arm_name(control, _without_seed(one), made)] = replace(one, document={**_without_seed(one), **own_seed})
    return made


def _without_seed(one: ImportedRecipe) -> dict[str, Any]:
    return {key: value for key, value in one.document.items() if key != "seed"}


def _several(launches: int, arms: int, seeds: list[int]) -> Finding:
    listed = ",".join(map(str, seeds))
    message = f"the script starts {launches} trainings: here {arms} arm{'s' * (arms > 1)}, seed {listed}"
    fix = f"launch them with --seed {listed}" if len(seeds) > 1 else "rlx launch starts each arm once"
    return Finding("RLX007", Severity.NOTE, message, fix)


def _arm_name(control: Mapping[str, Any], arm: Mapping[str, Any], taken: Mapping[str, Any]) -> str:
    """Name an arm by the values in which it differs from the control, as in `lr-5e-07`."""
    old = dict(_leaves(control))
    words = [f"{key.rpartition('.')[2]}-{value}" for key, value in _leaves(arm) if old.get(key) != value]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip("-._")[:_LONGEST_ARM] or f"arm-{len(taken) + 1}"
    return name if name not in taken and name != "all" else f"{name}-{len(taken) + 1}"


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _imported(found: FoundLaunch, name: str, version: str) -> ImportedRecipe:
    from rlx.api.imported_recipe import recipe_from_keys

    imported = recipe_from_keys(
        found.program,
        found.pairs,
        found.environment,
        name=name,
        config_name=found.config_name,
        device=found.device,
        version=version,
        workdir=found.workdir,
        unknown=found.unknown,
        secrets=found.secrets,
    )
    opened = tuple(_open_fates(found.open_variables))
    findings = (*imported.findings, *(finding for _, finding in opened), *found.findings)
    return replace(imported, environment=(*imported.environment, *(fate for fate, _ in opened)), findings=findings)


def _open_fates(variables: Mapping[str, str]) -> Iterator[tuple[Any, Finding]]:
    from rlx.api.imported_recipe import KeyFate

    for name, value in variables.items():
        message = f"{name}={value}: {_OPEN}"
        fix = "write it in full into env, or into a script that the host's entry names in setup"
        yield KeyFate(name, value, None, "", _OPEN, False), Finding("RLX005", Severity.WARNING, message, fix)


def _text(made: Mapping[str, ImportedRecipe]) -> str:
    from rlx.recipe.render import plain_yaml

    documents = {arm: one.document for arm, one in made.items()}
    base = documents[CONTROL]
    if len(documents) == 1:
        return plain_yaml(base)
    shared = {**base, **{key: _common([each.get(key, {}) for each in documents.values()]) for key in _MAPS}}
    shared["secrets"] = sorted({name for each in documents.values() for name in each.get("secrets", ())})
    shared = {key: value for key, value in shared.items() if value not in ({}, [])}
    arms = {arm: _beyond(shared, document) for arm, document in documents.items()}
    text = plain_yaml({**shared, "control": CONTROL})
    return text + "arms:\n" + "".join(_indented(arm, changes) for arm, changes in arms.items())


def _indented(arm: str, changes: Mapping[str, Any]) -> str:
    from rlx.recipe.render import plain_yaml

    if not changes:
        return f"  {arm}: {{}}\n"
    lines = "".join(f"    {line}\n" for line in plain_yaml(changes).splitlines())
    return f"  {arm}:\n{lines}"


def _common(maps: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys that all of them have with the same value."""
    first, *others = maps
    return {key: value for key, value in first.items() if all(key in each and each[key] == value for each in others)}


def _beyond(shared: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an arm's recipe has beyond the shared one; null where it has the recipe's default instead."""
    found: dict[str, Any] = {}
    for key in [*document, *(key for key in shared if key not in document)]:
        if key in ("version", "name", "secrets"):
            continue
        new, old = document.get(key), shared.get(key)
        if isinstance(new, Mapping) and isinstance(old, Mapping):
            below = _beyond_map(old, new)
            if below:
                found[key] = below
        elif new != old:
            found[key] = new
    return found


def _beyond_map(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    changed = {key: value for key, value in new.items() if key not in old or old[key] != value}
    return changed | {key: None for key in old if key not in new}


def _check(text: str, arms: tuple[str, ...]) -> None:
    """Read the recipe as any other: what is written can be launched once what is open is filled in. Raises UsageError
    otherwise.
    """
    from rlx.recipe.load import load_recipe
    from rlx.recipe.problems import OPEN, RecipeError
    from rlx.recipe.source import RecipeSource

    try:
        file = load_recipe(RecipeSource("the new recipe", Path.cwd(), text))
    except RecipeError as error:
        if all(problem.id == OPEN for problem in error.problems):
            return
        raise
    for arm in arms:
        file.resolve(arm)
