"""Read what the recipe and the configuration of a run state: settings, seeds, and what to expect of it.

A configuration that was read is not an intention: the person who wrote it may have meant another. It states when the
run was to validate, and for how long to train; a verdict that is based on it says so, and is `unverified` at best where
rlx did not launch the run or where the configuration is not all that the trainer composed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlx.evidence.grammars import by_kind, grammars
from rlx.evidence.log_grammar import Configured
from rlx.evidence.run_evidence import Announcement, Evidence
from rlx.local_files import open_regular
from rlx.model import Expectations, Link, NoiseExpectation, NoiseSchedule
from rlx.yaml_reader.hydra import REMOVED, bare_leaves

MODEL_DTYPE = "model.dtype"
_OWN_REWARD = "reward.path"
"""Whose scores may be anything; the rewards that a back-end knows by name are right or wrong."""
# It comes before the model is loaded, and takes a thousand lines.
_HEAD_BYTES = 8 << 20
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PAYLOAD = "payload"
_OPTIONS = (
    "sigma_start",
    "sigma_end",
    "stages",
    "schedule",
    "layer_types",
    "targets",
    "exclude",
    "multipliers",
)
_ELSEWHERE = {"seed": ("seed",), "validation_noise": ("eval", "noise"), "tp_size": ("rollout", "tp")}
# A log may name any number of steps.
_MOST_STEPS = 1_000_000


def settings_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Collect what a resolved recipe passes on unchanged, its model's precision, and whether it has its own reward.

    Empty for a run without a recipe.
    """
    overrides, model = recipe.get("overrides"), recipe.get("model")
    passed_on = bare_leaves(overrides) if isinstance(overrides, Mapping) else {}
    own = {MODEL_DTYPE: model.get("dtype")} if isinstance(model, Mapping) else {}
    if isinstance(reward := recipe.get("reward"), Mapping):
        own[_OWN_REWARD] = reward.get("path", "verifiers")
    return {**own, **{key: value for key, value in passed_on.items() if value is not REMOVED}}


def has_own_reward(settings: Mapping[str, Any]) -> bool:
    """Tell whether the recipe, or what it passes on, replaces the back-end's rewards."""
    keys = (key for grammar in grammars() for key in grammar.own_reward)
    return _OWN_REWARD in settings or any(key in settings for key in keys)


def settings_of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys about precision in a composed configuration, without interpolated ones, which are not known."""
    keys = frozenset().union(*(grammar.precision.keys for grammar in grammars()))
    leaves = ((key, value) for key, value in bare_leaves(config).items() if key in keys and value is not None)
    return {key: value for key, value in leaves if not (isinstance(value, str) and "${" in value)}


def seeds_of_config(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the keys of the training's seeds in a composed or printed configuration, with their numbers."""
    keys = frozenset().union(*(grammar.seed_keys for grammar in grammars()))
    return {key: value for key, value in bare_leaves(config).items() if key in keys and type(value) is int}


def read_printed_config(log: Path) -> Mapping[str, Any]:
    """Read the configuration that a program printed at its start, as a tree; empty where the log has none."""
    try:
        with open_regular(log) as stream:
            text = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    return printed_config(text)


def printed_config(text: str) -> Mapping[str, Any]:
    """Do the same for the text of a log."""
    lines = _ANSI.sub("", text).splitlines()
    return next((tree for each in grammars() if (tree := each.printed_configuration(lines))), {})


def with_settings_of(recipe: Mapping[str, Any], expectations: Expectations) -> Expectations:
    """Add the settings of the recipe to the noise of a plan by rlx 0.1 or 0.2, which lists none itself.

    `recipe`: resolved, with every default. Unchanged for an arm without the payload's noise.
    """
    noise, aqn = expectations.noise, recipe.get("aqn")
    if noise is None or noise.promise is not None or noise.provider != _PAYLOAD or not isinstance(aqn, Mapping):
        return expectations
    settings = {name: aqn[name] for name in _OPTIONS if name in aqn}
    for name, path in _ELSEWHERE.items():
        if (value := _at(recipe, path)) is not None:
            settings[name] = value
    settings["total_steps"] = len(noise.sigmas)
    return replace(expectations, noise=replace(noise, promise=NoiseExpectation(settings=settings)))


def _at(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def whole_configuration(config: Mapping[str, Any]) -> str:
    """Name the back-end whose trainer composed all of this configuration; "" for a part of one, and for any other."""
    found = ((kind, grammar.configured(config)) for kind, grammar in by_kind().items())
    return next((kind for kind, said in found if said is not None and said.is_whole), "")


def with_stated(expectations: Expectations, evidence: Evidence) -> Expectations:
    """Add the validations that the launch of a script expected; they replace those of its configuration."""
    stated, total = expectations.stated, evidence.total_steps or expectations.total_steps
    if stated is None or stated.every is None:
        return expectations
    due = set(range(stated.every, total, stated.every)) | {total} if stated.every and total else set[int]()
    return replace(expectations, validation_steps=tuple(sorted(due)), last_step_validated=stated.every > 0)


def with_configuration(
    expectations: Expectations, evidence: Evidence, config: Mapping[str, Any]
) -> tuple[Expectations, Evidence]:
    """Add what the printed configuration states. Noise that it requests counts as announced, and as nothing more.

    Both are unchanged where there is no configuration, or none that a back-end knows.
    """
    said = next((found for each in grammars() if (found := each.configured(config)) is not None), None)
    if said is None:
        return expectations, evidence
    total = evidence.total_steps or expectations.total_steps or said.total_steps
    read = _read(expectations, said, _validations(said, total or evidence.last_step, min(evidence.metrics, default=0)))
    if expectations.noise is not None:
        return read, evidence
    return read, replace(evidence, announced=(*evidence.announced, *_announced(said, total)))


def _read(expectations: Expectations, said: Configured, validations: tuple[int, ...]) -> Expectations:
    return replace(
        expectations,
        total_steps=expectations.total_steps or said.total_steps,
        validation_steps=validations,
        last_step_validated=said.validates_every > 0,
        validation_samples=said.validation_samples,
        reports_probability_gap=said.reports_probability_gap,
        noise=_with_response(expectations.noise) if said.reports_probability_gap else expectations.noise,
        is_read=True,
    )


def _with_response(noise: NoiseSchedule | None) -> NoiseSchedule | None:
    """Expect planned noise to be visible in the gap between rollout and actor, which the log should contain."""
    if noise is None or noise.promise is None:
        return noise
    links = tuple(link for link in Link if link is Link.FELT or link in noise.promise.links)
    return replace(noise, promise=replace(noise.promise, links=links))


def _validations(said: Configured, last: int, first: int) -> tuple[int, ...]:
    """List the steps that the log must show as validated. A log that begins later continues from a checkpoint."""
    begins_anew = first <= 1
    steps = {0} if said.validates_first and begins_anew else set()
    if said.validates_every and 0 < last <= _MOST_STEPS:
        steps.update(range(said.validates_every, last + 1, said.validates_every), [last])
    return tuple(sorted(step for step in steps if begins_anew or step >= first))


def _announced(said: Configured, total: int | None) -> tuple[Announcement, ...]:
    """Return the noise due from the second stage on: a fork's sync may serve the step after the one it names."""
    if said.sigmas is None or total is None:
        return ()
    sigma, _, stages = said.sigmas
    return (Announcement(-(-total // stages) + 2, sigma),)
