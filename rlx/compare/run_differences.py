"""List what differs between two runs: their recipes, and what they found on their hosts, which outranks the recipes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from rlx.backends.registry import loadable_part
from rlx.compare.difference_areas import (
    CHAT_TEMPLATE,
    CONFIG,
    FOLLOWS_FROM,
    HELD_OUT_DATA,
    MODEL_WEIGHTS,
    REWARD_CODE,
    TRAINING_DATA,
    VALIDATION_DATA,
    ConfigDifference,
    DifferenceArea,
    area_of,
)
from rlx.evidence import JudgedRun
from rlx.model import LaunchPlan, RunState
from rlx.model.launch_plan import SCRIPT_COMMAND, SCRIPT_ENV, script_words
from rlx.model.run_dir import COMMAND_FILE, LAUNCH_FILE, PAYLOAD_DIR, SCRIPT_DIR
from rlx.yaml_reader.hydra import bare_key, bare_leaves, read_words

_PACKAGE = "package "
_FACTS = {
    "python": "python",
    "platform": "platform",
    "machine": "machine",
    "image": "image",
    "git_commit": "git commit",
}
_SECTIONS = {
    "packages": _PACKAGE.strip(),
    "ascend": "ascend",
    "hardware": "hardware",
    "code": "code",
    "commits": "commit of",
    "changes": "uncommitted changes of",
    "files": "file",
}
_DATA = {"data.train": TRAINING_DATA, "data.val": VALIDATION_DATA, "eval.post.rows": HELD_OUT_DATA}
_MODEL = {
    "sha256": MODEL_WEIGHTS,
    "sha256_of_headers_and_samples": f"{MODEL_WEIGHTS} (headers and samples)",
    "config": "model configuration",
    "chat_template": CHAT_TEMPLATE,
}
_REWARD_FILES = {"reward.path": REWARD_CODE, "eval.post.reward.path": f"{REWARD_CODE} of eval.post"}
_DIGESTS = ("sha256", "sha256_of_first_and_last_mb")
# Written from the recipe, whose differences are named already. A back-end's part `differences` may name more.
_COMMAND_LINE = f"{SCRIPT_DIR}/{COMMAND_FILE}"
_RENDERED = frozenset({LAUNCH_FILE, "recipe.yaml", f"{PAYLOAD_DIR}/aqn.json", _COMMAND_LINE})
# As Hydra wrote it, and as the log shows it.
_CONFIGS = ("config", "printed_config")
_OWN_FOLDER = "(run)"
_BEFORE_RECORDING = (RunState.QUEUED, RunState.STARTING)
# Labels, reasons and trackers: they change nothing in the run.
COSMETIC = frozenset({"version", "name", "extends", "arms", "control", "waive", "track"})
_OVERRIDES = "overrides"
# What a recipe states of its data and of its launches, and where processes meet.
_NO_SETTINGS = (
    *("*seed", "data.train_rows", "data.val_rows", "retry", "retry.*"),
    *("*port", "*ports", "*_addr", "*_address", "*hostname", "*_ip"),
)
_SETTING_AREAS = frozenset({DifferenceArea.DATA, DifferenceArea.MODEL, DifferenceArea.REWARD, DifferenceArea.TRAINING})
RECIPE = "recipe"
"""The key of the only difference of a run without a recipe: what differs is not known."""


def differences(control: JudgedRun, treatment: JudgedRun) -> tuple[ConfigDifference, ...]:
    """List everything known that differs, what moves the result most first; in an area the recipe comes first."""
    runs = (control, treatment)
    declared = {*control.plan.treatment, *treatment.plan.treatment}
    given = tuple(_given_to_scripts(control, treatment))
    composed = _explained(composed_differences(control, treatment), given)
    # Of one script with two printed configurations it is known what differs, if what was given explains it.
    is_known = _is_one_script(*runs) and not any(map(is_training_setting, composed))
    recipes = () if is_known else recipe_differences(control.plan.recipe, treatment.plan.recipe, declared)
    hosts = [{"env": run.plan.site.env, "setup": run.plan.site.setup} for run in runs]
    of_hosts = differing(hosts[0], hosts[1], "host")
    found = (
        *given,
        *found_differences(control, treatment),
        *composed,
        *(ConfigDifference(key, left, right, area=area_of(key)) for key, left, right in of_hosts),
        *_only_one_recorded(control, treatment),
    )
    same = _same_files(*map(known_facts, runs))
    recipes = tuple(replace(item, area=DifferenceArea.INCIDENTAL) if item.key in same else item for item in recipes)
    by_design = {item.key for item in recipes if item.declared}
    found = tuple(replace(item, declared=True) if FOLLOWS_FROM.get(item.key) in by_design else item for item in found)
    return tuple(sorted((*recipes, *found), key=lambda item: item.area.rank))


def _same_files(control: Mapping[str, Any], treatment: Mapping[str, Any]) -> set[str]:
    """Return the recipe keys of files for which both runs recorded the same digests: only their paths may differ."""
    named = {**_DATA, **_REWARD_FILES}.items()
    same = {key for key, fact in named if control.get(fact) is not None and control.get(fact) == treatment.get(fact)}
    models = [{name: facts[name] for name in _MODEL.values() if name in facts} for facts in (control, treatment)]
    return same | {"model.path"} if MODEL_WEIGHTS in control and models[0] == models[1] else same


def _given_to_scripts(control: JudgedRun, treatment: JudgedRun) -> Iterator[ConfigDifference]:
    """Name what a person gave to a script from outside: without a recipe it is all that was declared."""
    left, right = (None if run.plan.has_recipe else _noise_words(run) for run in (control, treatment))
    if left != right:
        yield ConfigDifference("aqn", left, right, declared=True)
    mine, other = (
        {key: text.removeprefix(f"{key.removeprefix(SCRIPT_ENV)}=") for key, text in script_words(run.plan).items()}
        for run in (control, treatment)
    )
    for key in {**mine, **other}:
        if mine.get(key) != other.get(key):
            yield ConfigDifference(key, mine.get(key), other.get(key), declared=True, area=area_of(key))


def _explained(found: Sequence[ConfigDifference], given: Sequence[ConfigDifference]) -> tuple[ConfigDifference, ...]:
    """Mark the settings of a composed configuration that have the values which were given to the scripts."""
    pairs: list[tuple[str | None, str | None]] = []
    for item in given:
        if item.key == SCRIPT_COMMAND:
            mine, other = ({*_values_in(words or "")} for words in (item.control, item.treatment))
            pairs += [*((value, None) for value in mine - other), *((None, value) for value in other - mine)]
        elif item.key.startswith(SCRIPT_ENV):
            pairs.append((item.control, item.treatment))

    def explains(one: str | None, value: Any) -> bool:
        return one is None or (value is not None and _is_same(one, value))

    return tuple(
        replace(item, declared=True)
        if any(explains(left, item.control) and explains(right, item.treatment) for left, right in pairs)
        else item
        for item in found
    )


def _values_in(line: str) -> Iterator[str]:
    """Yield the words of a command line that may be values: `--lr 4e-4`, `--lr=4e-4`, `optim.lr=4e-4`."""
    for word in shlex.split(line):
        yield word.partition("=")[2] or word


def _is_same(typed: str, value: Any) -> bool:
    """Tell whether a word is this value as a shell or a program would write it."""
    text = typed.strip("'\"")
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return text.lower() == str(value).lower()


def _is_one_script(control: JudgedRun, treatment: JudgedRun) -> bool:
    """Tell whether both runs are of one script, or of command lines, and both show their configuration."""
    runs = (control, treatment)
    if any(run.plan.has_recipe or not run.plan.is_launched for run in runs):
        return False
    shown = any(all(run.provenance.get(kind) for run in runs) for kind in _CONFIGS)
    scripts = [
        {name: digest for name, digest in _mapping(run.provenance.get("files")).items() if name.startswith(SCRIPT_DIR)}
        for run in runs
    ]
    return shown and bool(scripts[0]) and (scripts[0] == scripts[1] or all(_COMMAND_LINE in each for each in scripts))


def _noise_words(run: JudgedRun) -> str | None:
    noise = run.plan.expectations.noise
    if noise is None:
        return None
    noisy = [sigma for sigma in noise.sigmas if sigma]
    return f"sigma {noisy[0]:g} to {noisy[-1]:g} in {noise.stages} stages" if noisy else None


def composed_differences(control: JudgedRun, treatment: JudgedRun) -> tuple[ConfigDifference, ...]:
    """List where the configurations composed in the two containers differ, but for what the launches set differently.

    That follows from their recipes, whose differences are named already. A run that rlx did not launch has only what it
    printed: values in place of interpolations, so that each kind is compared with its own kind, and a name that
    another key contains as well follows from the key that was launched.
    """
    kind = next((each for each in _CONFIGS if control.provenance.get(each) and treatment.provenance.get(each)), None)
    if kind is None:
        return ()
    have_recipes = control.plan.recipe and treatment.plan.recipe
    launched = _launched_differently(control.plan, treatment.plan) if have_recipes else set[str]()
    runs = (control, treatment)
    composed = (
        _in_any_folder(run.provenance[kind], run.run_id) if have_recipes else run.provenance[kind] for run in runs
    )
    found = list(differing(*composed))
    rest = [each for each in found if not any(f"{each[0]}.".startswith(f"{name}.") for name in launched)]
    names = [(mine, other) for key, mine, other in found if isinstance(mine, str) and key in launched]
    listed = [
        ConfigDifference(f"{CONFIG} {key}", mine, other, area=area_of(f"{CONFIG} {key}"))
        for key, mine, other in rest
        if not (isinstance(mine, str) and (mine, other) in names)
    ]
    return tuple(listed if have_recipes else _without_own_places(_as_seed(listed, control.seed, treatment.seed)))


def _in_any_folder(value: Any, run_id: str) -> Any:
    """Replace the run's own folder in each path of a configuration: every run has another one, whatever it keeps there.

    A path into the folder of another run stays as it is, because that is a difference.
    """
    if isinstance(value, Mapping):
        return {key: _in_any_folder(each, run_id) for key, each in value.items()}
    if isinstance(value, list):
        return [_in_any_folder(each, run_id) for each in value]
    if isinstance(value, str) and f"/{run_id}" in value:
        return re.sub(rf"/{re.escape(run_id)}(?![^/])", f"/{_OWN_FOLDER}", value)
    return value


def _as_seed(found: Sequence[ConfigDifference], seed: int, other: int) -> Iterator[ConfigDifference]:
    """Name the seeds of two runs once, whichever keys of the configuration have them."""
    own = [item for item in found if item.key.endswith("seed") and (item.control, item.treatment) == (seed, other)]
    if own:
        yield ConfigDifference("seed", seed, other)
    yield from (item for item in found if item not in own)


def _without_own_places(found: Iterable[ConfigDifference]) -> Iterator[ConfigDifference]:
    """Take what follows from the names and folders of the two runs for incidental, wherever it occurs."""
    items = list(found)
    places = [item for item in items if item.area is DifferenceArea.INCIDENTAL]
    parts = {pair for item in places for pair in _unlike_parts(item)}
    for item in items:
        unlike = _unlike_parts(item)
        yield replace(item, area=DifferenceArea.INCIDENTAL) if unlike and parts.issuperset(unlike) else item


def _unlike_parts(item: ConfigDifference) -> list[tuple[str, str]]:
    """Return the parts in which two names or paths of equal depth differ; none for other values."""
    if not (isinstance(item.control, str) and isinstance(item.treatment, str)):
        return []
    left, right = item.control.split("/"), item.treatment.split("/")
    return [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]] if len(left) == len(right) else []


def _launched_differently(plan: LaunchPlan, other: LaunchPlan) -> set[str]:
    """Return the keys of the engine that the two launches set differently, by their words or in a file of theirs.

    A word with a variable counts, because each run fills in its own value.
    """
    words = {*plan.command}
    unlike = (words ^ {*other.command}) | {word for word in words if "${" in word}
    recipes = [key for key, _, _ in differing(plan.recipe, other.recipe)]
    own = (key.removeprefix("overrides.") for key in recipes if key.startswith("overrides."))
    set_by: Mapping[str, Sequence[str]] = getattr(loadable_part(plan.backend, "differences"), "SET_BY", {})
    decided = (
        key
        for key, deciding in set_by.items()
        if any(fnmatchcase(each, pattern) for each in recipes for pattern in deciding)
    )
    return {*(bare_key(key) for key, _ in read_words(unlike)), *map(bare_key, own), *decided}


def _only_one_recorded(control: JudgedRun, treatment: JudgedRun) -> Iterator[ConfigDifference]:
    """Report that only one run recorded anything, because that is not the same as no difference.

    A run records it when it starts, and lacks nothing before.
    """
    both = (control, treatment)
    left, right = ("recorded" if "packages" in run.provenance else "not recorded" for run in both)
    if left != right and not any(run.state in _BEFORE_RECORDING for run in both):
        yield ConfigDifference("versions and code found on the host", left, right, area=DifferenceArea.CODE)


def same_validation_items(control: JudgedRun, treatment: JudgedRun) -> bool:
    """Tell whether it is known that both were validated on the same rows: one file, filtered in the same way.

    The digest of the file decides where both recorded one, else the path in the recipes. The filter counts the tokens
    of the model's tokenizer.
    """
    validated = []
    for run in (control, treatment):
        data = run.plan.recipe.get("data")
        if not isinstance(data, Mapping) or not data.get("val"):
            return False
        rest = {key: value for key, value in data.items() if not key.startswith("train")}
        validated.append({**rest, "model": _at(run, "model.path"), "post": _at(run, "eval.post")})
    digests = [known_facts(run).get(VALIDATION_DATA) for run in (control, treatment)]
    if None not in digests:
        validated = [{**each, "val": digest} for each, digest in zip(validated, digests, strict=True)]
    return validated[0] == validated[1]


def graded_apart(runs: Sequence[JudgedRun]) -> bool:
    """Tell whether `eval.post` of all runs has its own reward, so that the training's is not part of the evaluation."""
    return all(_at(run, "eval.post.reward") for run in runs)


def found_differences(control: JudgedRun, treatment: JudgedRun) -> tuple[ConfigDifference, ...]:
    """List the facts that both runs recorded and that differ. A run that recorded nothing differs in nothing.

    A package that only one of them has is a difference; a file is not, because it belongs to the treatment.
    """
    left, right = known_facts(control), known_facts(treatment)
    recorded = all("packages" in run.provenance for run in (control, treatment))
    return tuple(
        ConfigDifference(key, left.get(key), right.get(key), area=area_of(key))
        for key in {**left, **right}
        if left.get(key) != right.get(key)
        and ((key in left and key in right) or (recorded and key.startswith(_PACKAGE)))
    )


def known_facts(run: JudgedRun) -> dict[str, Any]:
    """Return everything that a run recorded of its versions, code, data and model, by name.

    The value is `error: …` where the run could not find it out. Data are named by what they are for, because their
    paths may differ from host to host; the digest of all bytes of a model is recorded during the run.
    """
    recorded, rewards = run.provenance, _reward_paths(run)
    part = loadable_part(run.plan.backend, "differences")
    rendered = _RENDERED.union(getattr(part, "RENDERED", ()), rewards.values())
    facts: dict[str, Any] = {"rlx": run.submitted_by["rlx"]} if "rlx" in run.submitted_by else {}
    facts |= {word: recorded[key] for key, word in _FACTS.items() if key in recorded}
    for section, word in _SECTIONS.items():
        names = _mapping(recorded.get(section)).items()
        facts |= {f"{word} {name}": value for name, value in names if name not in rendered}
    files, model = _mapping(recorded.get("files")), _mapping(recorded.get("model"))
    facts |= {_REWARD_FILES[key]: files[path] for key, path in rewards.items() if path in files}
    for key, word in _DATA.items():
        if (digest := _digest(_mapping(recorded.get("data")), _at(run, key))) is not None:
            facts[word] = digest
    facts |= {word: model[name] for name, word in _MODEL.items() if model.get(name)}
    return facts | ({CHAT_TEMPLATE: "none"} if not model.get("chat_template", True) else {})


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _digest(files: Mapping[str, Any], path: Any) -> Any:
    """Return the digest of a file that the recipe names, whose path may start with `~`; None where there is none."""
    found = None
    for name, facts in files.items() if isinstance(path, str) else ():
        if name == path or (path.startswith("~/") and name.endswith(path[1:])):
            found = next((facts[each] for each in reversed(_DIGESTS) if each in _mapping(facts)), found)
    return found


def _reward_paths(run: JudgedRun) -> dict[str, str]:
    """Return the paths in the run directory of the reward functions that the recipe names, by its key."""
    found = {key: _at(run, key) for key in _REWARD_FILES}
    return {key: f"{PAYLOAD_DIR}/{PurePosixPath(path).name}" for key, path in found.items() if isinstance(path, str)}


def _at(run: JudgedRun, key: str) -> Any:
    """Return the value of a dotted key of the recipe; None where it has none."""
    value: Any = run.plan.recipe
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def recipe_differences(
    control: Mapping[str, Any], treatment: Mapping[str, Any], declared: Collection[str]
) -> tuple[ConfigDifference, ...]:
    """List the differences of two resolved recipes, the declared ones marked. `declared`: dotted keys of either arm."""
    if not (control and treatment):
        left, right = ("known" if recipe else "not known" for recipe in (control, treatment))
        return (ConfigDifference(RECIPE, left, right),)
    sections = (key.partition(".") for key in declared)
    bare = [f"{name}{dot}{bare_key(own) if name == _OVERRIDES else own}" for name, dot, own in sections]
    return tuple(
        ConfigDifference(key, left, right, _is_declared(key, bare), area_of(key))
        for key, left, right in differing(_with_bare_overrides(control), _with_bare_overrides(treatment))
        if key.split(".")[0] not in COSMETIC
    )


def _is_declared(key: str, declared: Collection[str]) -> bool:
    """Tell whether a declared key covers this one: `aqn` covers `aqn.stages`, and `aqn.stages` covers a new `aqn`."""
    return any(f"{key}.".startswith(f"{name}.") or name.startswith(f"{key}.") for name in declared)


def is_training_setting(item: ConfigDifference) -> bool:
    """Tell whether an undeclared difference is a setting that both trainings had, with another value each.

    Not a path, because its bytes decide; not a key of the engine that one of them lacks, as in another version; not the
    seed, which the arms are sampled over.
    """
    if item.declared or item.area not in _SETTING_AREAS or any(fnmatchcase(item.key, each) for each in _NO_SETTINGS):
        return False
    if _is_path(item.control) or _is_path(item.treatment):
        return False
    if item.key.startswith(f"{CONFIG} "):
        return item.control is not None and item.treatment is not None
    return item.key == TRAINING_DATA or " " not in item.key


def _is_path(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(each, str) and ("/" in each or "\\" in each) for each in values)


def _with_bare_overrides(recipe: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name each override by its bare key, because `+a.b: 1` and `a: {b: 1}` set the same key."""
    overrides = recipe.get(_OVERRIDES)
    return {**recipe, _OVERRIDES: bare_leaves(overrides)} if isinstance(overrides, Mapping) else recipe


def differing(control: Any, treatment: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, control's value, treatment's value) wherever two documents differ.

    A section that only one of them has (`aqn: null` against `aqn: {…}`) is one difference, not one for each default.
    """
    if isinstance(control, Mapping) and isinstance(treatment, Mapping):
        for name in sorted(control.keys() | treatment.keys(), key=str):
            yield from differing(control.get(name), treatment.get(name), f"{key}.{name}" if key else str(name))
    elif control != treatment:
        yield key, control, treatment
