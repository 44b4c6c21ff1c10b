"""The noise that rlx brings: its schedule, and the settings that travel with the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from rlx.errors import UsageError
from rlx.model import AdaptiveSigma, Link, NoiseExpectation, NoiseProcess, NoiseSchedule, sigmas_by_step, to_jsonable

if TYPE_CHECKING:
    from rlx.recipe.schema import Aqn

# A plan lists the processes one by one; a recipe may name any number of devices.
_MOST_DEVICES = 100_000
NOISE = "rlx_aqn"  # the payload's modules begin with it
_DIGITS = 16


class Validations(Protocol):
    """Whether validations see the noise, too."""

    @property
    def noise(self) -> bool: ...


class NoiseSource(Protocol):
    """The values that rlx's noise depends on: of a recipe, or of a launch script's options."""

    @property
    def aqn(self) -> Aqn | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def eval(self) -> Validations: ...


def payload_schedule(
    recipe: NoiseSource,
    total_steps: int,
    epoch_steps: int | None,
    links: Iterable[Link] = (),
    processes: tuple[NoiseProcess, ...] = (),
    *,
    probed: bool = False,
) -> NoiseSchedule | None:
    """Sigma of each of `total_steps` steps; None for an arm without noise, or with that of a fork.

    `epoch_steps` are the steps of one epoch. `links`, `processes` and `probed` as in NoisePromise; without processes
    the link "reached" cannot be shown. Raises UsageError where the noise needs an epoch's steps and they are not known.
    """
    aqn = recipe.aqn
    if aqn is None or aqn.provider != "payload":
        return None
    sigmas = sigmas_by_step(
        aqn.sigma_start, aqn.sigma_end, aqn.stages, total_steps, aqn.schedule, stage_span(aqn, epoch_steps)
    )
    promise = _noise_expectation(
        payload_settings(recipe, aqn, total_steps, epoch_steps), links, processes, probed=probed
    )
    return scheduled(recipe, aqn, sigmas, replace(promise, factor=None if aqn.multipliers else 1.0))


def watch_expectation(
    recipe: NoiseSource,
    watched: Aqn,
    total_steps: int,
    links: Iterable[Link],
    processes: tuple[NoiseProcess, ...],
    *,
    probed: bool = False,
) -> NoiseExpectation:
    """Promise what an arm without noise shows of that, on the layers of the noise `watched` of another arm."""
    return _noise_expectation(watch_settings(recipe, watched, total_steps), links, processes, probed=probed)


def _noise_expectation(
    content: str, links: Iterable[Link], processes: tuple[NoiseProcess, ...], *, probed: bool
) -> NoiseExpectation:
    return NoiseExpectation(
        links=tuple(link for link in links if processes or link is not Link.REACHED),
        settings=json.loads(content),
        digest=hashlib.sha256(content.encode()).hexdigest()[:_DIGITS],
        processes=processes,
        probed=probed,
    )


def scheduled(recipe: NoiseSource, aqn: Aqn, sigmas: tuple[float, ...], promise: NoiseExpectation) -> NoiseSchedule:
    """Schedule these sigmas on the layers that the recipe names; the evidence is checked against them."""
    return NoiseSchedule(
        sigmas=sigmas,
        stages=aqn.stages,
        layer_types=aqn.layer_types,
        provider=aqn.provider,
        in_validation=recipe.eval.noise,
        promise=promise,
        min_trained_share=aqn.min_trained_share,
        adaptive=_adaptive(aqn),
        perturbations=aqn.perturbations,
    )


def _adaptive(aqn: Aqn) -> AdaptiveSigma | None:
    follows = aqn.adaptive
    if follows is None:
        return None
    (target, value), *_ = ((name, value) for name, value in follows.target if value is not None)
    return AdaptiveSigma(target, value, follows.gain, follows.sigma_min, follows.sigma_max)


def processes_of(devices: int, per_node: int, tp: int, shards: int = 1) -> tuple[NoiseProcess, ...]:
    """Count off the processes of a rollout on so many devices: neighbours hold one model.

    Empty where the devices cannot be split like that, or are too many for a plan.
    """
    size = tp * shards
    if not 1 <= devices <= _MOST_DEVICES or devices % size:
        return ()
    return tuple(
        NoiseProcess(device // size, device % size // tp, device % tp, device // per_node) for device in range(devices)
    )


def stage_span(aqn: Aqn, epoch_steps: int | None) -> int | None:
    """Return the number of steps in which all stages pass once; None: the whole run."""
    if not aqn.per_epoch:
        return None
    if not epoch_steps:
        raise UsageError("aqn.per_epoch: the number of steps of an epoch is not known", "give data.train_rows")
    return epoch_steps


def watch_settings(recipe: NoiseSource, watched: Aqn, total_steps: int) -> str:
    """Write payload/aqn.json for an arm without noise: sigma 0 on the layers of another arm's noise."""
    nothing = {
        "sigma_start": 0.0,
        "sigma_end": 0.0,
        "schedule": "constant",
        "adaptive": None,
        "perturbations": 1,
        "per_epoch": False,
        "multipliers": {},
    }
    return payload_settings(recipe, watched.model_copy(update=nothing), total_steps, None)


def payload_settings(recipe: NoiseSource, aqn: Aqn, total_steps: int, epoch_steps: int | None) -> str:
    """Write payload/aqn.json, which rlx_aqn_settings.py reads."""
    settings = {
        "sigma_start": aqn.sigma_start,
        "sigma_end": aqn.sigma_end,
        "stages": aqn.stages,
        "total_steps": total_steps,
        "schedule": aqn.schedule,
        "epoch_steps": stage_span(aqn, epoch_steps),
        "layer_types": aqn.layer_types,
        "targets": aqn.targets,
        "exclude": aqn.exclude,
        "multipliers": aqn.multipliers,
        "seed": recipe.seed,
        "validation_noise": recipe.eval.noise,
    }
    if (follows := _adaptive(aqn)) is not None:
        settings["adaptive"] = to_jsonable(follows)
    if aqn.perturbations > 1:
        settings["perturbations"] = aqn.perturbations
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
