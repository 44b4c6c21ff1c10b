"""Check by the digests of clean weights that the engine received what was trained: RLX792 and RLX793.

After the next sync, an update of the trainer must be visible in the weights that generate. Where noise is added, or its
absence is recorded, the engine digests the clean weights of each sync; records of the weights themselves are checked in
`recorded_weights`. A digest that stays the same while the trainer takes updates is a weight sync without effect, or
updates too small for the digested weights: norm weights near 1 do not change by a step of 1e-6 in bfloat16, and frozen
ones not at all. So it is an error only if the engine also moves away from the trainer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from statistics import median

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import sigma_at
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import finite, metric_of, series
from rlx.evidence.modes import Mode
from rlx.evidence.run_evidence import LOG, ROLLOUT, SERVED, Evidence
from rlx.evidence.verdict import CheckFinding, at_steps, counted, invalid, remark
from rlx.model import NoiseProcess, Severity

FEWEST_UPDATES = 5
"""One update that arrives is visible among so many consecutive ones."""
_MODES = frozenset({Mode.RESUMED, Mode.DYNAMIC_BATCHES, Mode.FILTERED_GROUPS, Mode.MULTI_TURN})
CHECK_SYNC = "check that the weight sync reaches the model that generates: search the log for its errors; launch again"
# Healthy gaps in 8 bits triple within 32 steps; those modes are excluded, and this is well above.
_GROWN, _FALLEN = 4.0, 0.05
_FEWEST_VALUES = 6
_MONOTONE = 0.6


@dataclass(frozen=True, slots=True)
class UnchangedSteps:
    """Steps whose rollouts an engine generated with equal weights, and the updates of the trainer between them."""

    process: NoiseProcess
    steps: tuple[int, ...]
    updates: tuple[int, ...]


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report unchanged clean digests. Nothing in a mode where they may stay, or where the mode is not known.

    Records of the weights themselves show more, where there are any.
    """
    if any(record.role == SERVED and record.syncs for record in given.evidence.weights):
        return
    if not given.setup.configuration or given.modes - _MODES:
        return
    found = [each for each in _stretches(given) if len(each.updates) >= FEWEST_UPDATES]
    if not found:
        return
    first = max(found, key=lambda each: len(each.updates))
    processes = len({each.process for each in found})
    stood = (
        f"the clean weights of {first.process} were the same at {at_steps(first.steps)}, and the trainer made "
        f"{counted(len(first.updates), 'update')} during that time"
        f"{f' ({processes} processes in total)' if processes > 1 else ''}"
    )
    drift = drift_of(given, first.steps)
    if drift and _shows_small_steps(given):
        message = f"the engine that generates did not receive what was trained: {stood}, and {drift}"
        yield invalid("RLX792", message, CHECK_SYNC, first.steps[1])
    else:
        beside = f", and {drift}" if drift else ""
        yield remark(
            "RLX793",
            Severity.WARNING if drift else Severity.NOTE,
            f"{stood}{beside}: a sync without effect, or updates too small for the layers that are digested",
            "check that these layers are trained; float32 shows small updates",
            first.steps[1],
        )


def _shows_small_steps(given: CheckInput) -> bool:
    """Tell whether an update shows in what is digested: in float32, or in the small weights of a linear layer."""
    promise = given.expectations.watch or (given.expectations.noise and given.expectations.noise.promise)
    layers = promise.settings.get("layer_types") or () if promise else ()
    model = given.setup.recipe.get("model")
    return "linear" in layers or (isinstance(model, Mapping) and model.get("dtype") == "float32")


def _stretches(given: CheckInput) -> Iterator[UnchangedSteps]:
    updates = updated_steps(given.evidence)
    for process, digests in _clean_digests(given.evidence).items():
        for _, own in groupby(sorted(digests.items()), key=lambda item: item[1]):
            steps = tuple(step for step, _ in own)
            yield UnchangedSteps(process, steps, tuple(step for step in updates if steps[0] <= step < steps[-1]))


def _clean_digests(evidence: Evidence) -> Mapping[NoiseProcess, Mapping[int, str]]:
    """Return by process the clean digest of the weights that generated each step, from its last record of the step."""
    found: dict[NoiseProcess, dict[int, str]] = {}
    for event in evidence.noise:
        if event.source != LOG and event.phase == ROLLOUT and event.step is not None and event.digest_clean:
            found.setdefault(event.process, {})[event.step] = event.digest_clean
    return found


def updated_steps(evidence: Evidence) -> list[int]:
    """List the steps at which the log shows a gradient and a learning rate above 0, where it shows rates at all."""
    gradients = finite(series(evidence, metric_of(evidence, Role.GRAD_NORM)))
    rates = finite(series(evidence, metric_of(evidence, Role.LEARNING_RATE)))
    return sorted(step for step, norm in gradients.items() if step > 0 and norm > 0 and rates.get(step, 1.0) > 0)


def drift_of(given: CheckInput, steps: Sequence[int]) -> str:
    """Describe how the engine moved away from the trainer over these steps; "" where nothing shows that it did."""
    own = _without_more_noise(given, sorted(steps))
    gap, likeness = (_ends(given.evidence, role, own) for role in (Role.PROBABILITY_GAP, Role.PROBABILITY_CORRELATION))
    if gap and gap[1] >= _GROWN * gap[0]:
        return f"the gap between rollout and actor grew from {gap[0]:.2g} to {gap[1]:.2g}"
    if likeness and likeness[0] - likeness[1] >= _FALLEN:
        return f"the correlation of rollout and actor fell from {likeness[0]:.3g} to {likeness[1]:.3g}"
    return ""


def _without_more_noise(given: CheckInput, steps: Sequence[int]) -> Sequence[int]:
    """Leave out the steps before the last rise of sigma, because noise increases the gap."""
    if given.noise is None:
        return steps
    sigmas = given.noise.application.sigmas
    rises = [
        place for place in range(1, len(steps)) if sigma_at(sigmas, steps[place]) > sigma_at(sigmas, steps[place - 1])
    ]
    return steps[max(rises, default=0) :]


def _ends(evidence: Evidence, role: Role, steps: Sequence[int]) -> tuple[float, float] | None:
    """Return the medians of the first and the last third of a monotone metric; None for any other."""
    found = finite(series(evidence, metric_of(evidence, role)))
    values = [found[step] for step in steps if step in found]
    if len(values) < _FEWEST_VALUES:
        return None
    signs = [(later > earlier) - (later < earlier) for earlier, later in combinations(values, 2)]
    third = len(values) // 3
    goes_one_way = abs(sum(signs)) >= _MONOTONE * len(signs)
    return (median(values[:third]), median(values[-third:])) if goes_one_way else None
