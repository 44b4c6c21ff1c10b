"""List what differs between two runs: their recipes, and what they found on their hosts, which outranks the recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from rlx.backends.registry import loadable_part
from rlx.compare.config_diff import ConfigDifference, differing, recipe_differences
from rlx.compare.difference_areas import (
    CHAT_TEMPLATE,
    CONFIG,
    FOLLOWS_FROM,
    HELD_OUT_DATA,
    MODEL_WEIGHTS,
    REWARD_CODE,
    TRAINING_DATA,
    VALIDATION_DATA,
    Area,
    area_of,
)
from rlx.evidence import JudgedRun
from rlx.model import LaunchPlan, RunState
from rlx.model.run_dir import LAUNCH_FILE, PAYLOAD_DIR
from rlx.yaml_reader.hydra import bare_key, read_words

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
_RENDERED = frozenset({LAUNCH_FILE, "recipe.yaml", f"{PAYLOAD_DIR}/aqn.json"})
# As Hydra wrote it, and as the log shows it.
_CONFIGS = ("config", "printed_config")
_OWN_FOLDER = "(run)"
_BEFORE_RECORDING = (RunState.QUEUED, RunState.STARTING)


def differences(control: JudgedRun, treatment: JudgedRun) -> tuple[ConfigDifference, ...]:
    """List everything known that differs, what moves the result most first; in an area the recipe comes first."""
    declared = {*control.plan.treatment, *treatment.plan.treatment}
    recipes = recipe_differences(control.plan.recipe, treatment.plan.recipe, declared)
    found = (
        *_noise_around_scripts(control, treatment),
        *found_differences(control, treatment),
        *composed_differences(control, treatment),
        *_host_differences(control, treatment),
        *_only_one_recorded(control, treatment),
    )
    same = {key for key in _DATA if _same_data(control, treatment, key)}
    same |= {"model.path"} if _same_weights(control, treatment) else set()
    same |= {key for key in _REWARD_FILES if _same_reward(control, treatment, key)}
    recipes = tuple(replace(item, area=Area.INCIDENTAL) if item.key in same else item for item in recipes)
    by_design = {item.key for item in recipes if item.declared}
    found = tuple(replace(item, declared=True) if FOLLOWS_FROM.get(item.key) in by_design else item for item in found)
    return tuple(sorted((*recipes, *found), key=lambda item: item.area.rank))


def _noise_around_scripts(control: JudgedRun, treatment: JudgedRun) -> Iterator[ConfigDifference]:
    """Name the noise that was added to a users' script: without a recipe it is the one thing that was declared."""
    left, right = (None if run.plan.has_recipe else _noise_words(run) for run in (control, treatment))
    if left != right:
        yield ConfigDifference("aqn", left, right, declared=True)


def _noise_words(run: JudgedRun) -> str | None:
    noise = run.plan.expectations.noise
    if noise is None:
        return None
    noisy = [sigma for sigma in noise.sigmas if sigma]
    return f"sigma {noisy[0]:g} to {noisy[-1]:g} in {noise.stages} stages" if noisy else None


def composed_differences(control: JudgedRun, treatment: JudgedRun) -> tuple[ConfigDifference, ...]:
    """List where the configurations composed in the two containers differ, but for what the launches set differently.

    That follows from their recipes, whose differences are named already. A run that rlx did not launch has only what it
    printed: values in place of interpolations, so that either kind is held against its own, and a name that stands in
    another key as well follows from the key that was launched.
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
    """Take what follows from the names and folders of the two runs for incidental, wherever it stands."""
    items = list(found)
    places = [item for item in items if item.area is Area.INCIDENTAL]
    parts = {pair for item in places for pair in _unlike_parts(item)}
    for item in items:
        unlike = _unlike_parts(item)
        yield replace(item, area=Area.INCIDENTAL) if unlike and parts.issuperset(unlike) else item


def _unlike_parts(item: ConfigDifference) -> list[tuple[str, str]]:
    """Return the parts in which two names or paths of equal depth differ; none for other values."""
    if not (isinstance(item.control, str) and isinstance(item.treatment, str)):
        return []
    left, right = item.control.split("/"), item.treatment.split("/")
    return [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]] if len(left) == len(right) else []


def _launched_differently(plan: LaunchPlan, other: LaunchPlan) -> set[str]:
    """Return the keys of the engine that the two launches set differently, by their words or in a file of theirs."""
    launched = {bare_key(key) for key, _ in read_words(_set_differently(plan.command, other.command))}
    recipes = [key for key, _, _ in differing(plan.recipe, other.recipe)]
    own = (key.removeprefix("overrides.") for key in recipes if key.startswith("overrides."))
    decided = (
        key
        for key, deciding in _settings_by_recipe_key(plan.backend).items()
        if any(fnmatchcase(each, pattern) for each in recipes for pattern in deciding)
    )
    return {*launched, *map(bare_key, own), *decided}


def _settings_by_recipe_key(backend: str) -> Mapping[str, Sequence[str]]:
    part = loadable_part(backend, "differences")
    return getattr(part, "SET_BY", {})


def _set_differently(command: Sequence[str], other: Sequence[str]) -> set[str]:
    """The words that only one launch has, and those whose value each run fills in for itself."""
    words, others = {*command}, {*other}
    return (words ^ others) | {word for word in words if "${" in word}


def _host_differences(control: JudgedRun, treatment: JudgedRun) -> Iterator[ConfigDifference]:
    """List what the entries of the two hosts add to a run."""
    left, right = ({"env": run.plan.site.env, "setup": run.plan.site.setup} for run in (control, treatment))
    yield from (ConfigDifference(key, a, b, area=area_of(key)) for key, a, b in differing(left, right, "host"))


def _only_one_recorded(control: JudgedRun, treatment: JudgedRun) -> Iterator[ConfigDifference]:
    """Report that only one run recorded anything, because that is not the same as no difference.

    A run records it when it starts, and lacks nothing before.
    """
    both = (control, treatment)
    left, right = ("recorded" if "packages" in run.provenance else "not recorded" for run in both)
    if left != right and not any(run.state in _BEFORE_RECORDING for run in both):
        yield ConfigDifference("versions and code found on the host", left, right, area=Area.CODE)


def same_validation_items(control: JudgedRun, treatment: JudgedRun) -> bool:
    """Tell whether it is known that both were validated on the same rows: one file, filtered in the same way.

    The digest of the file decides where both recorded one, else the path in the recipes.
    """
    left, right = (_validated_on(run) for run in (control, treatment))
    digests = [dict(_data(run)).get(VALIDATION_DATA) for run in (control, treatment)]
    if None not in digests:
        left, right = ({**each, "val": digest} for each, digest in zip((left, right), digests, strict=True))
    return bool(left) and left == right


def _validated_on(run: JudgedRun) -> dict[str, Any]:
    """Name what the recipe validates on: the file, and what its filter goes by. Empty without a recipe.

    The filter counts the tokens of the model's tokenizer.
    """
    data = run.plan.recipe.get("data")
    if not isinstance(data, Mapping) or not data.get("val"):
        return {}
    rest = {key: value for key, value in data.items() if not key.startswith("train")}
    return {**rest, "model": _at(run, "model.path"), "post": _at(run, "eval.post")}


def graded_apart(runs: Sequence[JudgedRun]) -> bool:
    """Tell whether `eval.post` of all runs has its own reward, so that the training's is none of the evaluation."""
    return all(_at(run, "eval.post.reward") for run in runs)


def _same_data(control: JudgedRun, treatment: JudgedRun, key: str) -> bool:
    """Tell whether both recorded the same digest: then only the path of the file differs."""
    left, right = (dict(_data(run)).get(_DATA[key]) for run in (control, treatment))
    return left is not None and left == right


def _same_weights(control: JudgedRun, treatment: JudgedRun) -> bool:
    """Tell whether both recorded the same digests of everything that lies in the model's folder."""
    left, right = (dict(_model(run)) for run in (control, treatment))
    return MODEL_WEIGHTS in left and left == right


def _same_reward(control: JudgedRun, treatment: JudgedRun, key: str) -> bool:
    """Tell whether both brought the same reward function along: then only the place it was taken from differs."""
    left, right = (dict(_rewards(run)).get(_REWARD_FILES[key]) for run in (control, treatment))
    return left is not None and left == right


def found_differences(control: JudgedRun, treatment: JudgedRun) -> tuple[ConfigDifference, ...]:
    """Facts that both runs recorded and that differ. A run that recorded nothing differs in nothing.

    A package that only one of them has is a difference; a file is none, since it belongs to the treatment.
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
    """Everything that a run recorded of its versions, code, data and model, by name."""
    return dict(_facts(run))


def _facts(run: JudgedRun) -> Iterator[tuple[str, Any]]:
    """(name, value) of everything the run recorded; `error: …` stands where it could not find out."""
    part = loadable_part(run.plan.backend, "differences")
    rendered = _RENDERED.union(getattr(part, "RENDERED", ()))
    known, told = run.provenance, rendered | {_sent(path) for path in _reward_paths(run).values()}
    if "rlx" in run.submitted_by:
        yield "rlx", run.submitted_by["rlx"]
    yield from ((word, known[key]) for key, word in _FACTS.items() if key in known)
    for section, word in _SECTIONS.items():
        facts = known.get(section)
        if isinstance(facts, Mapping):
            yield from ((f"{word} {name}", value) for name, value in facts.items() if name not in told)
    yield from _rewards(run)
    yield from _data(run)
    yield from _model(run)


def _model(run: JudgedRun) -> Iterator[tuple[str, str]]:
    """The digests of the model that the run began with; that of all its bytes comes while the run goes on."""
    found = run.provenance.get("model")
    if isinstance(found, Mapping):
        yield from ((word, found[name]) for name, word in _MODEL.items() if found.get(name))
        if "chat_template" in found and not found["chat_template"]:
            yield CHAT_TEMPLATE, "none"


def _rewards(run: JudgedRun) -> Iterator[tuple[str, str]]:
    """The digests of the reward functions that travelled with the run."""
    files = run.provenance.get("files")
    for key, path in _reward_paths(run).items():
        if isinstance(files, Mapping) and _sent(path) in files:
            yield _REWARD_FILES[key], files[_sent(path)]


def _reward_paths(run: JudgedRun) -> dict[str, str]:
    """The local files of reward functions that the recipe names, by its key."""
    found = {key: _at(run, key) for key in _REWARD_FILES}
    return {key: path for key, path in found.items() if isinstance(path, str)}


def _sent(path: str) -> str:
    """Where a local file of the recipe lies in the run directory."""
    return f"{PAYLOAD_DIR}/{PurePosixPath(path).name}"


def _data(run: JudgedRun) -> Iterator[tuple[str, str]]:
    """The digests of the data by what they are for: their paths may differ from host to host."""
    files = run.provenance.get("data")
    for key, word in _DATA.items():
        path = _at(run, key)
        if isinstance(files, Mapping) and isinstance(path, str):
            yield from ((word, digest) for name, facts in files.items() if _is(name, path) for digest in _digest(facts))


def _at(run: JudgedRun, key: str) -> Any:
    """The value of a dotted key of the recipe; None where it has none."""
    value: Any = run.plan.recipe
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _is(found: str, path: str) -> bool:
    """Tell whether an absolute path is the one of the recipe, which may start with `~`."""
    return found == path or (path.startswith("~/") and found.endswith(path[1:]))


def _digest(facts: Any) -> list[str]:
    return [facts[name] for name in _DIGESTS if name in facts] if isinstance(facts, Mapping) else []
