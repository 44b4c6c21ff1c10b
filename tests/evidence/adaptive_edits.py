"""Edits that make the recorded run with a probe one whose sigma follows a measurement, and then break that.

Each edit that must be seen through has a near twin among the first ones that is honest.
"""

from __future__ import annotations

import math
from inspect import isfunction

from tests.evidence.edits import GAP, Recorded
from tests.evidence.probed_edits import _lines, second_replica

ENTROPY = "rollout_corr/rollout_log_ppl"
_FIRST, _LAST = 5, 20


def follows_the_gap(run: Recorded) -> None:
    _follow(run, "gap", 0.003)


def follows_the_entropy(run: Recorded) -> None:
    _follow(run, "entropy", 1.0)


def follows_the_gap_in_two_replicas(run: Recorded) -> None:
    second_replica(run)
    _follow(run, "gap", 0.003)


def follows_what_was_no_number_once(run: Recorded) -> None:
    """As where every sample of a step is masked: sigma stays as it was."""
    run.put(ENTROPY, {9: math.nan})
    _follow(run, "entropy", 1.0)


def reaches_its_bound(run: Recorded) -> None:
    _follow(run, "gap", 0.9)


def follows_another_formula(run: Recorded) -> None:
    """Twice the gain that was promised, from the right measurements."""
    _follow(run, "gap", 0.003)
    _put(run, _sigmas(_logged(run, GAP), 0.003, 2 * _RULE["gain"]))


def leaves_its_measurements_once(run: Recorded) -> None:
    _follow(run, "gap", 0.003)
    for line in _lines(run, "noise", "rollout", 12):
        line["sigma"] *= 1.02


def stands_still_though_measured(run: Recorded) -> None:
    _follow(run, "gap", 0.003)
    _put(run, dict.fromkeys(range(_FIRST, _LAST + 1), 0.05))


def stands_still_and_hears_nothing(run: Recorded) -> None:
    stands_still_though_measured(run)
    for line in _lines(run, "noise", "rollout"):
        line["measured"] = None


def one_replica_hears_nothing(run: Recorded) -> None:
    follows_the_gap_in_two_replicas(run)
    for line in _lines(run, "noise", "rollout"):
        if line["process"]["replica"] == 1:
            line["measured"] = None
            line.update({"sigma": 0.05} if line["sigma"] else {})


def follows_numbers_of_its_own(run: Recorded) -> None:
    """The formula is the promised one; the measurements are not those of the training."""
    logged = _logged(run, GAP)
    _follow(run, "gap", 0.003, {step: gap / 3 for step, gap in logged.items()})


def measurement_not_logged(run: Recorded) -> None:
    _follow(run, "entropy", 1.0)
    for step in range(1, _LAST + 1):
        run.forget(step, lambda key: key == ENTROPY)


_RULE = {"gain": 0.25, "sigma_min": 0.01, "sigma_max": 0.2}


def _follow(run: Recorded, target: str, value: float, measured: dict[int, float] | None = None) -> None:
    """Plan and record the run as an honest payload would. `measured`: by default what the training logged."""
    if measured is None:
        measured = _logged(run, {"gap": GAP, "entropy": ENTROPY}[target])
    rule = {"target": target, "value": value, **_RULE}
    settings = {"schedule": "adaptive", "sigma_end": 0.05, "adaptive": rule}
    noise = run.expectations["noise"]
    noise.update(adaptive=rule, sigmas=[0.05 if sigma else 0.0 for sigma in noise["sigmas"]])
    run.promise["settings"] |= settings
    for told in run.told():
        told.update(settings)
    for line in _lines(run, "noise", "rollout"):
        line.update(measured=measured.get(line["step"] - 1), target=value)
    _put(run, _sigmas(measured, value, _RULE["gain"]))


def _logged(run: Recorded, metric: str) -> dict[int, float]:
    found = {line["step"]: line["data"][metric] for line in run.metrics if metric in line["data"]}
    return {step: value for step, value in found.items() if math.isfinite(value)}


def _sigmas(measured: dict[int, float], value: float, gain: float) -> dict[int, float]:
    sigmas = {_FIRST: 0.05}
    for step in range(_FIRST, _LAST):
        past = sigmas[step]
        if step in measured:
            moved = past * (1 + gain) if measured[step] <= value else past / (1 + gain)
            past = min(max(moved, _RULE["sigma_min"]), _RULE["sigma_max"])
        sigmas[step + 1] = past
    return sigmas


def _put(run: Recorded, sigmas: dict[int, float]) -> None:
    for line in _lines(run, "noise", "rollout", *sigmas):
        scale = sigmas[line["step"]] / line["sigma"]
        line.update(sigma=sigmas[line["step"]], asked_std=line["asked_std"] * scale)
        line["effective_std"] *= scale
    for line in _lines(run, "probe", "rollout", *sigmas):
        line["sigma"] = sigmas[line["step"]]


EDITS = {
    name: edit
    for name, edit in globals().items()
    if isfunction(edit) and edit.__module__ == __name__ and name[0] != "_"
}
