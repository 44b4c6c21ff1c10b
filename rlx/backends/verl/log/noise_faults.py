"""Name the faults of verl's forks that their own lines give away, because a verdict shall not say only what is missing.

Source: zhshgmail/verl, branch feature/npu-aqn-test up to cfb21db5; read there and its arithmetic re-run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import training_steps
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, at_steps, counted, invalid

_PER_LAYER = "trainer.noise_injection.layer_sigma_config"


def noise_faults(evidence: Evidence, found: Application) -> Iterator[Charge]:
    if not any(event.is_noisy for event in evidence.noise):
        yield from _epoch_aware_is_never_noisy(evidence)
        yield from _step_never_advanced(evidence, found)
    else:
        yield from _without_multipliers(evidence)


def _epoch_aware_is_never_noisy(evidence: Evidence) -> Iterator[Charge]:
    """Charge the fork's epoch-aware noise: it hands the step's sigma on as a schedule whose stage 0 is sigma 0."""
    # What was synced after the last step generates nothing.
    steps = range(1, evidence.last_step + 1)
    promised = [said for said in evidence.announced if said.epoch_aware and said.sigma > 0 and said.step in steps]
    if promised:
        yield invalid(
            "RLX615",
            f"the fork's epoch-aware noise is always 0: its lines announce it for "
            f"{counted(len({said.step for said in promised}), 'step')}, sigma {promised[0].sigma:g} first at step "
            f"{promised[0].step}, and none was added (zhshgmail/verl, every version from 4399ddd0 to cfb21db5)",
            "use the global mode, or aqn.provider: payload",
            promised[0].step,
        )


def _step_never_advanced(evidence: Evidence, found: Application) -> Iterator[Charge]:
    said = [each for each in evidence.announced if not each.epoch_aware]
    if said and len(training_steps(evidence)) > 1 and found.due and {each.step for each in said} == {1}:
        yield invalid(
            "RLX615",
            f"the fork's noise stands still at its step 0, which is free of noise, in all of "
            f"{counted(len(training_steps(evidence)), 'step')}: the trainer never advances it (the DAPO trainer of "
            "zhshgmail/verl before 2da4dd15)",
            "use a version with 2da4dd15, or aqn.provider: payload",
            found.due[0],
        )


def _without_multipliers(evidence: Evidence) -> Iterator[Charge]:
    """The fork prints `SRDD-guided` wherever it multiplies sigma layer by layer; the payload never does."""
    if not _asks_for_multipliers(evidence.settings):
        return
    plain = [event for event in evidence.noise if event.is_noisy and not event.per_layer]
    if plain:
        steps = [event.step for event in plain if event.step is not None and event.step <= evidence.last_step]
        where = f" at {at_steps(steps)}" if steps else ""
        yield invalid(
            "RLX616",
            f"sigma was to differ layer by layer (layer_sigma_config), and the noise{where} shows no multiplier; the "
            "trainer of zhshgmail/verl up to cfb21db5 never hands them to the rollout",
            "without them this is the arm with one sigma for all layers: compare it as that",
            min(steps, default=None),
        )


def _asks_for_multipliers(settings: Mapping[str, Any]) -> bool:
    own = {key: value for key, value in settings.items() if f"{key}.".startswith(f"{_PER_LAYER}.")}
    return any(value is not None for value in own.values()) and own.get(f"{_PER_LAYER}.enabled") is not False
