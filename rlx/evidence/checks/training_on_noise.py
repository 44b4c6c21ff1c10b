"""Check "training": the actor was trained on the samples that the noise produced.

Noise moves the rollout's probabilities away from the actor's, and a correction that rejects samples by this distance
removes the treatment: verl's own threshold 0.999_1.001 for the mean log ratio removed 94 % of the samples at sigma 0.05
(measured on the tiny CPU recipe). So what the rejection kept of the noisy samples is compared with what it kept of the
clean ones of the same run, or of a control with the same correction. Samples that a filter of lengths or of equal
rewards drops do not depend on the noise: they are reported beside it, and do not count. Back-ends log them in different
units: shares of the answers, groups, or batches generated for one step. Truncated weights remove no sample: their
effective sample size is reported, and not judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import mean, median

from rlx.evidence.checks import training_signal
from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import Application
from rlx.evidence.checks.training_signal import steps_without_spread
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import finite, metric_of, series
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import CheckFinding, at_steps, counted, invalid, percent, remark, unverified
from rlx.model import Expectations, Severity

INVALID = ("RLX651", *training_signal.INVALID)
"""The findings by which a run has not trained on what it should; its noise may be as planned all the same."""
# With fewer remaining samples, there is no training on noisy samples.
_NOTHING_LEFT = 0.01
_ROUNDING = 1e-9
_LEAVE_MORE = "a wider threshold, or importance weights instead of rejection; else report the rejection with the result"
_SHARES = {
    Role.CLIP_RATIO: "of the answers ended at the length limit",
    Role.ABORTED_SAMPLES: "of the answers were aborted",
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """The share of the samples that the correction removed at each noisy step, and at steps without noise.

    `usual`: the share at the same step without noise, from the run's own clean steps or from a control; empty where
    neither is known.
    """

    taken: Mapping[int, float]
    usual: Mapping[int, float]

    @property
    def excess(self) -> dict[int, float]:
        return {step: share - self.usual[step] for step, share in self.taken.items() if step in self.usual}


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report a training that excluded the noisy samples."""
    if given.noise is None or not given.noise.application.effective:
        return
    evidence, expectations, (noise, found, _) = given.evidence, given.expectations, given.noise
    rejection = rejected(evidence, found, given.control_removed)
    if rejection.taken:
        beside = _beside(evidence, rejection.taken)
        yield from _rejected(rejection, 1 - noise.min_trained_share, beside)
    elif _kind(expectations) or removed(evidence):
        yield unverified(
            "RLX652",
            f"nothing shows what the rejection{_kind(expectations)} kept of the noisy samples: "
            f"{metric_of(evidence, Role.REJECTED_SAMPLES) or 'their share'} is not logged",
            "use a version of the back-end that logs it, or no rejection",
            found.effective[0],
        )


def removed(evidence: Evidence) -> dict[int, float]:
    """Compute the share of the samples that the correction removed, by step; empty where none is logged.

    A rejection by token masks some token of nearly every sample, one by sample every token of some: the smaller of both
    shares was certainly removed.
    """
    masked = [_of(evidence, role) for role in (Role.REJECTED_SAMPLES, Role.REJECTED_TOKENS)]
    shares = {step: min(each.get(step, 1.0) for each in masked) for step in {step for each in masked for step in each}}
    for role in (Role.VETOED_SAMPLES, Role.ZEROED_WEIGHTS):
        for step, share in _of(evidence, role).items():
            shares[step] = max(share, shares.get(step, 0.0))
    return dict(sorted(shares.items()))


def rejected(evidence: Evidence, found: Application, control: Mapping[int, float] | None) -> Rejection:
    """Sort the shares by noisy and clean steps. The run's own clean steps are preferred to the control."""
    shares = removed(evidence)
    taken = {step: shares[step] for step in found.effective if step in shares}
    clean = [shares[step] for step in found.quiet if step in shares and not any(e.is_noisy for e in found.at(step))]
    return Rejection(taken, dict.fromkeys(taken, median(clean)) if clean else control or {})


def sentence(evidence: Evidence, found: Application, expectations: Expectations) -> Iterator[str]:
    """State what the correction kept of the noisy samples, and the effective sample size; nothing without one."""
    shares = rejected(evidence, found, None)
    if shares.taken and (_kind(expectations) or any(shares.taken.values())):
        beside = _beside(evidence, shares.taken)
        usual = f" ({percent(median(shares.usual.values()))} without noise)" if shares.usual else ""
        yield f"rejection removed {percent(mean(shares.taken.values()))} of the noisy samples{usual}{beside}"
    worth = _of(evidence, Role.EFFECTIVE_SAMPLE_SIZE)
    if noisy := [worth[step] for step in found.effective if step in worth]:
        yield f"importance weights leave an effective sample size of {percent(median(noisy))} at noisy steps"


def _of(evidence: Evidence, role: Role) -> dict[int, float]:
    return finite(series(evidence, metric_of(evidence, role)))


def _kind(expectations: Expectations) -> str:
    """Return the rejection that the plan expects, in brackets; "" where it expects none."""
    correction = expectations.correction
    return f" ({correction.rejection})" if correction and correction.rejection else ""


def _rejected(found: Rejection, allowed: float, beside: str) -> Iterator[CheckFinding]:
    taken = mean(found.taken.values())
    if 1 - taken < _NOTHING_LEFT:
        yield invalid(
            "RLX651",
            f"the actor was not trained on what the noise produced: the rejection kept {percent(1 - taken)} of the "
            f"samples of {counted(len(found.taken), 'noisy step')}{beside}",
            _LEAVE_MORE,
            min(found.taken),
        )
        return
    much = [step for step, excess in found.excess.items() if excess > allowed + _ROUNDING]
    if much:
        most = 2 * len(much) >= len(found.taken)
        words = f"{_words(found, much, allowed)}{beside}"
        if most:
            message = f"what was compared is AQN with this rejection: {words}"
            yield unverified("RLX650", message, _LEAVE_MORE, much[0])
        else:
            yield remark("RLX650", Severity.WARNING, words, _LEAVE_MORE, much[0])
    unknown = [step for step, share in found.taken.items() if step not in found.usual and share > allowed + _ROUNDING]
    if 2 * len(unknown) >= len(found.taken):
        yield unverified(
            "RLX653",
            f"the rejection removed {percent(mean(found.taken[step] for step in unknown))} of the samples at "
            f"{at_steps(unknown)}, and no step without noise shows how much of that is due to the noise{beside}",
            "a first stage free of noise, or a control with the same correction",
            unknown[0],
        )


def _words(found: Rejection, much: list[int], allowed: float) -> str:
    taken, usual = (mean(shares[step] for step in much) for shares in (found.taken, found.usual))
    return (
        f"it removed {percent(taken)} of the samples at {at_steps(much)}, {len(much)} of "
        f"{counted(len(found.taken), 'noisy step')}, and {percent(usual)} without noise; up to "
        f"{percent(allowed)} more was allowed (aqn.min_trained_share)"
    )


def _beside(evidence: Evidence, steps: Collection[int]) -> str:
    """Describe what other filters removed at these steps, as an addition to a sentence; "" for nothing."""
    found = ", ".join((*_shares(evidence, steps), *_groups(evidence, steps)))
    return f"; not counted here: {found}" if found else ""


def _shares(evidence: Evidence, steps: Collection[int]) -> Iterator[str]:
    for role, words in _SHARES.items():
        shares = _at(evidence, role, steps)
        if any(shares):
            yield f"{percent(mean(shares))} {words}"


def _groups(evidence: Evidence, steps: Collection[int]) -> Iterator[str]:
    # A step without a dropped group is not logged as zero.
    if dropped := sum(_at(evidence, Role.FILTERED_GROUPS, steps)):
        yield f"{dropped / len(steps):.3g} groups per step were dropped by a filter"
    batches = _at(evidence, Role.GENERATED_BATCHES, steps)
    if any(each > 1 for each in batches):
        yield f"{mean(batches):.3g} batches were generated for each step"
    if flat := steps_without_spread(evidence)[1].intersection(steps):
        yield f"no group had an advantage at {len(flat)} of {counted(len(steps), 'step')}"


def _at(evidence: Evidence, role: Role, steps: Collection[int]) -> list[float]:
    values = finite(series(evidence, metric_of(evidence, role)))
    return [values[step] for step in steps if step in values]
