"""Turn what a launch sets, keys and environment, into a recipe, and compare each key with what that recipe renders."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from rlx.errors import UsageError
from rlx.model import Finding, Severity
from rlx.recipe.problems import UNDECIDED
from rlx.secret_text import is_secret, names_secret

if TYPE_CHECKING:
    from rlx.backends.shared.users_launches import KeysPart, Rendered, UsersLaunch
    from rlx.recipe import ResolvedRecipe

OVERRIDES = "overrides"
UNKNOWN = "known only when the launch runs"
FOREIGN = "no version of the back-end that rlx knows has this key"
_MOST_SHOWN = 8
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LEASED = ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_LEASE = "rlx leases the devices of a run, and names them to it"
_OF_RLX = "rlx writes this variable itself"
_PATHS = ("model.path", "data.train", "data.val")
_DEVICE = "layout.device"
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


@dataclass(frozen=True, slots=True)
class KeyFate:
    """What became of one key of the launch. `place` is the recipe key that renders it, or "overrides".

    `reason` says why `rendered` is not what the launch has; "" where it is the same. `is_rendered`: the recipe's launch
    sets this key at all.
    """

    key: str
    written: object
    rendered: object
    place: str
    reason: str = ""
    is_rendered: bool = True

    @property
    def is_equal(self) -> bool:
        """Tell whether the recipe renders the value of the launch."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class ImportedRecipe:
    """A recipe made of a launch: its `document` and `text`, the fate of each key and variable, what is to be said."""

    document: Mapping[str, Any]
    keys: tuple[KeyFate, ...]
    environment: tuple[KeyFate, ...]
    findings: tuple[Finding, ...]

    @property
    def text(self) -> str:
        """Return the recipe as YAML."""
        from rlx.recipe.render import plain_yaml

        return plain_yaml(self.document)


def recipe_from_keys(
    program: str,
    keys: Mapping[str, object] | Iterable[tuple[str, object]],
    environment: Mapping[str, str] | None = None,
    *,
    name: str = "imported",
    config_name: str = "",
    device: str = "",
    version: str = "",
    workdir: str = "",
    unknown: Collection[str] = (),
    secrets: Collection[str] = (),
) -> ImportedRecipe:
    """Make a recipe of a launch of `program`, a module or a file, that sets `keys` and exports `environment`.

    Keys may have Hydra's prefixes; of one that is set twice the last counts. Those in `unknown` have a value that only
    the launch itself will know, and stand here as they are written. `device` is the kind of devices where the launch
    does not say it, UNDECIDED where it is for several; `version` that of the back-end, by default the newest that knows
    most of the keys. `workdir` is the folder on the host that it starts in, `secrets` are names of further secret
    variables. Raises UsageError for a program that no recipe starts.
    """
    from rlx.backends.shared.users_launches import UsersLaunch

    part = keys_part(program)
    pairs = tuple(keys.items() if isinstance(keys, Mapping) else keys)
    last = {part.bare(key): key for key, _ in pairs}
    kept = {key: value for key, value in pairs if last[part.bare(key)] == key}
    known = {key: None if key in unknown else value for key, value in kept.items()}
    variables = dict(environment or {})
    open_device, device = device == UNDECIDED, device.replace(UNDECIDED, "")
    launch = UsersLaunch(program, known, config_name, device, version, workdir)
    public, fates = _environment(variables, secrets)
    secrets = [fate.key for fate in fates if fate.place == "secrets"]
    document = mended({"name": _named(name), **_nested(part.values(launch)), "env": public, "secrets": secrets})
    document = _with_overrides(document, part, kept, unknown)
    found = tuple(_fates(document, part, pairs, launch, unknown))
    found = tuple(replace(fate, rendered=UNDECIDED) if fate.reason == UNKNOWN else fate for fate in found)
    findings = [*_findings((*found, *fates)), *_added(document, part, pairs), *_unsaid(document, found)]
    document = _opened(document, part, found)
    if open_device and all(fate.place != _DEVICE for fate in found):
        _put(document, _DEVICE.split("."), UNDECIDED)
        message = f"{_DEVICE}: the launch is for GPUs and NPUs, and decides when it runs; the recipe has {UNDECIDED}"
        findings.append(Finding("RLX004", Severity.WARNING, message, f"write cuda or npu into {_DEVICE}"))
    return ImportedRecipe(document, found, fates, tuple(findings))


def keys_part(program: str) -> KeysPart:
    """Return the part of the back-end whose program this is. Raises UsageError where no recipe starts it."""
    from rlx.backends.registry import parts

    for _, module in parts("users_keys"):
        part = cast("KeysPart", module)
        if part.takes(program):
            if refused := part.refusal(program):
                raise UsageError(*refused)
            return part
    raise UsageError(
        f"{program}: is no program that rlx knows",
        f"recipes are for {examples()}; others: rlx launch --script",
    )


def examples() -> str:
    """How launches that rlx knows begin."""
    from rlx.backends.registry import parts

    return " or ".join(f"`{module.EXAMPLE}`" for _, module in parts("users_keys"))


def _named(name: str) -> str:
    from rlx.recipe.fields import NAME_LIMIT

    return _NAME.sub("-", name).strip("-._")[:NAME_LIMIT] or "imported"


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *sections, last = path.split(".")
        inner = tree
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return tree


def _environment(variables: Mapping[str, str], secrets: Collection[str]) -> tuple[dict[str, str], tuple[KeyFate, ...]]:
    """Part the variables into those that a recipe may show and secrets, of which only the names are kept."""
    public: dict[str, str] = {}
    fates = [KeyFate(name, None, None, "secrets") for name in dict.fromkeys(secrets)]
    for name, value in variables.items():
        if name in secrets:
            continue
        if name in _LEASED or name.startswith("RLX_"):
            fates.append(KeyFate(name, value, None, "", _LEASE if name in _LEASED else _OF_RLX, False))
        elif names_secret(name) or is_secret(name, value):
            fates.append(KeyFate(name, None, None, "secrets"))
        else:
            public[name] = value
            fates.append(KeyFate(name, value, value, "env"))
    return public, tuple(fates)


def _resolved(document: Mapping[str, Any]) -> ResolvedRecipe:
    from pathlib import Path

    from rlx.recipe.load import ONLY_ARM, load_recipe
    from rlx.recipe.render import plain_yaml
    from rlx.recipe.source import RecipeSource

    return load_recipe(RecipeSource("the new recipe", Path.cwd(), plain_yaml(document))).resolve(ONLY_ARM)


def _with_overrides(
    document: dict[str, Any], part: KeysPart, keys: Mapping[str, object], unknown: Collection[str]
) -> dict[str, Any]:
    """Hand on as it is each key that the recipe renders otherwise, or not at all."""
    from rlx.backends.shared.users_launches import same

    rendered = part.rendered(_resolved(document))
    overrides = {}
    for key, value in keys.items():
        found = rendered.get(part.bare(key))
        if part.bare(key) in part.OWN or (found is not None and (key in unknown or same(value, found.value))):
            continue
        if not _stands_in(document, found):
            override, given = part.override(key, value, document["backend"])
            overrides[override] = given
    return {**document, OVERRIDES: overrides} if overrides else document


def _opened(document: Mapping[str, Any], part: KeysPart, fates: Iterable[KeyFate]) -> dict[str, Any]:
    """Leave each value open that only the launch knows, so that nothing is launched with another one."""
    import copy

    found = copy.deepcopy(dict(document))
    for fate in fates:
        if fate.reason != UNKNOWN:
            continue
        if fate.place and fate.place != OVERRIDES:
            _put(found, fate.place.split("."), UNDECIDED)
        else:
            own = found.setdefault(OVERRIDES, {})
            written = next((key for key in own if part.bare(key) == part.bare(fate.key)), fate.key)
            own[written] = UNDECIDED
    return found


def _stands_in(document: Mapping[str, Any], found: Rendered | None) -> bool:
    """Tell whether the recipe has a stand-in there for a path that does not exist on a host."""
    if found is None or found.source not in _PATHS:
        return False
    section, _, key = found.source.partition(".")
    return bool(document[section][key] == STAND_INS[found.source])


def _fates(
    document: Mapping[str, Any],
    part: KeysPart,
    pairs: tuple[tuple[str, object], ...],
    launch: UsersLaunch,
    unknown: Collection[str],
) -> Iterable[KeyFate]:
    from rlx.backends.shared.users_launches import CONFIG_NAME, same

    rendered = part.rendered(_resolved(document))
    foreign = part.foreign([key for key, _ in pairs])
    last = {part.bare(key): i for i, (key, _) in enumerate(pairs)}
    if launch.config_name and CONFIG_NAME in rendered:
        pairs = ((CONFIG_NAME, launch.config_name.removesuffix(".yaml")), *pairs)
        last = {part.bare(key): i for i, (key, _) in enumerate(pairs)}
    for i, (key, value) in enumerate(pairs):
        bare = part.bare(key)
        found = rendered.get(bare)
        reason = ""
        if last[bare] != i:
            reason = "set again further on, and the last one counts"
        elif key in unknown and bare not in part.OWN:
            reason = UNKNOWN
        elif key in foreign and (found is None or found.source.startswith(f"{OVERRIDES}.")):
            reason = FOREIGN
        elif found is None:
            reason = part.OWN.get(bare, "nothing in the recipe's launch sets it")
        elif not same(value, found.value):
            reason = part.OWN.get(bare) or _why(document, found)
        place = found.source if found else ""
        place = OVERRIDES if place.startswith(f"{OVERRIDES}.") else place
        yield KeyFate(key, value, found and found.value, place, reason, found is not None)


def _why(document: Mapping[str, Any], found: Rendered) -> str:
    if _stands_in(document, found):
        return f"no path on a host, which {found.source} must be: write its path on the host"
    return f"{found.source} renders another value"


def _findings(fates: Sequence[KeyFate]) -> Iterable[Finding]:
    if foreign := [fate.key for fate in fates if fate.reason == FOREIGN]:
        shown_keys = ", ".join(foreign[:_MOST_SHOWN]) + (", …" if len(foreign) > _MOST_SHOWN else "")
        which = f"{len(foreign)} keys" if len(foreign) > 1 else "1 key"
        message = f"{which} that no version rlx knows has ({shown_keys}): this is a fork, or another version"
        fix = "name the fork's configuration folder in backend.key_source and its checkout in backend.workdir, or "
        yield Finding("RLX009", Severity.WARNING, message, f"{fix}launch the script as it is: rlx launch --script")
    for fate in fates:
        if fate.reason == FOREIGN:
            continue
        if fate.place == "secrets":
            message = f"{fate.key} looks like a secret: the recipe has its name, and its value nowhere"
            yield Finding("RLX006", Severity.NOTE, message, f"export {fate.key} where you launch")
        elif fate.reason == UNKNOWN:
            message = f"{fate.key}: {shown(fate.written)} is known only when the script runs; the recipe has "
            place = f"overrides, {fate.key}" if fate.place in ("", OVERRIDES) else fate.place
            fix = f"write the value into {place}"
            yield Finding("RLX004", Severity.WARNING, message + shown(fate.rendered), fix)
        elif not fate.is_equal:
            severity, fix = Severity.NOTE, ""
            if fate.place in _PATHS:
                severity, fix = Severity.WARNING, f"write {fate.place} in the recipe"
            rendered = shown(fate.rendered) if fate.is_rendered else "not"
            both = f"{shown(fate.written)} in the launch, {rendered} in the recipe's"
            yield Finding("RLX003", severity, f"{fate.key}: {both}: {fate.reason}", fix)


def _added(document: Mapping[str, Any], part: KeysPart, pairs: tuple[tuple[str, object], ...]) -> Iterable[Finding]:
    """Report what the recipe sets where the launch leaves the back-end's default."""
    from rlx.backends.registry import kinds

    added = part.added(_resolved(document), [key for key, _ in pairs])
    if added:
        listed = ", ".join(f"{key}={shown(value)}" for key, value in sorted(added.items()))
        kind = document["backend"].get("kind", kinds()[0])
        message = f"the recipe also sets what the launch leaves to {kind}: {listed}"
        yield Finding("RLX003", Severity.NOTE, message, "for the default, write it into overrides")


def _unsaid(document: Mapping[str, Any], fates: Iterable[KeyFate]) -> Iterable[Finding]:
    """Report what a recipe needs and the launch does not say: places on a host, a configuration that was not read."""
    places = {fate.place for fate in fates}
    for path in (*_PATHS, "backend.workdir"):
        section, _, key = path.partition(".")
        if document[section].get(key) == STAND_INS[path] and path not in places:
            message = f"{path}: the launch does not say it, and {STAND_INS[path]} stands there"
            yield Finding("RLX004", Severity.WARNING, message, f"write {path} in the recipe")
    if name := document["backend"].get("config_name"):
        message = f"the launch starts from {name}, whose keys are not read here"
        fix = "give that file to rlx init --from, or name its folder in backend.key_source"
        yield Finding("RLX005", Severity.WARNING, message, fix)


def shown(value: object) -> str:
    """Return a value as a recipe would show it."""
    import json

    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


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
    raise UsageError("the launch sets what no recipe can express", "start from a bundled recipe: rlx init")


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
