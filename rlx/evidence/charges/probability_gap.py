"""Second witness: does the rollout really sample from other weights than the actor's?

Noise on the rollout's weights moves its token probabilities away from those that the actor computes for the same
tokens; a back-end may log the mean distance (`Role.PROBABILITY_GAP` of its log grammar). This is measured far from the
code that adds the noise, so it is independent of what that code says about itself.

How large the distance is without noise depends on everything else: 1e-7 in float32 on one machine, 4e-4 with a merged
LoRA, 4e-3 in healthy bfloat16 runs. So there is no absolute threshold: the noisy steps are held against the steps of
the same run whose planned sigma is 0, by ranks (`rank_test`). Where the gap of a control is given, each value is
divided by the control's at the same step first, which takes out what changes in the course of training anyhow.

The last stages are a hundred times weaker than the first and may drown where the clean gap is large; that says nothing
against the strong ones. So only effective steps count, and of those only the ones within a decade of the strongest,
as long as enough of them are left to reach significance. The choice looks at sigma alone, never at the gap, so it does
not bias the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.evidence.charges.applied import Application
from rlx.evidence.charges.rank_test import best_p, p_larger
from rlx.evidence.grammars import grammars
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of, series
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, counted, unverified

ALPHA = 0.01
# Above this, noisy steps do not even tend to be larger.
_NO_TENDENCY = 0.1
_STRONG = 0.1


@dataclass(frozen=True, slots=True)
class GapTest:
    """The gap at `noisy` steps against `clean` steps: p of the one-sided test, and the smallest p they allow."""

    noisy: tuple[float, ...]
    clean: tuple[float, ...]
    p: float
    best: float
    unit: str = ""  # of the values: none as logged
    metric: str = ""

    @property
    def agrees(self) -> bool:
        return self.p < ALPHA


def gap_test(
    evidence: Evidence, found: Application, control: Mapping[int, float] | None = None, witness: str = ""
) -> GapTest:
    """Hold the noisy steps against the clean ones. `control`: the control's gap by step. `witness`: as in the plan."""
    gaps = gaps_of(evidence, control, witness)
    effective = [step for step in found.effective if step in gaps]
    clean = [gaps[step] for step in found.quiet if step in gaps and not any(e.is_noisy for e in found.at(step))]
    noisy = [gaps[step] for step in _strongest(found, effective, len(clean))]
    unit = "" if control is None or witness else " × the control's"
    best = best_p(len(noisy), len(clean))
    return GapTest(tuple(noisy), tuple(clean), p_larger(noisy, clean), best, unit, gap_metric(evidence, witness))


def charges(evidence: Evidence, test: GapTest, reported: bool, *, over: bool) -> Iterator[Charge]:
    """Charge where the witness does not agree. `reported`: the back-end logs this metric at all.

    `over`: the run has ended; before that, more steps may still settle what is inconclusive now.
    """
    if test.agrees:
        return
    if test.best < ALPHA and test.p >= _NO_TENDENCY:
        yield unverified(
            "RLX609",
            "the witnesses disagree: noise was recorded, but rollout and actor are no further apart than without it "
            f"({_numbers(test)})",
            "is the model that gets the noise the one that generates?",
        )
        return
    if over:
        fix = "more steps with and without noise" if reported else _how_to_log(evidence)
        yield unverified("RLX608", _why_inconclusive(test, reported), fix)


def gap_metric(evidence: Evidence, witness: str = "") -> str:
    """Find what this log calls the gap, or what stands in for it; "" where no back-end has a name for it."""
    return metric_of(evidence, Role(witness or Role.PROBABILITY_GAP))


def _how_to_log(evidence: Evidence) -> str:
    return "; ".join(
        f"{each.title} logs it with {each.gap_setting}" for each in grammars(evidence.backend) if each.gap_setting
    )


def _why_inconclusive(test: GapTest, reported: bool) -> str:
    if not reported:
        return "no second witness: this back-end does not report the gap between rollout and actor"
    if not test.noisy:
        return f"no second witness: {test.metric} is missing at the noisy steps"
    if not test.clean:
        return f"no second witness: {test.metric} is missing at the steps without noise"
    return f"the second witness is inconclusive: {_numbers(test)}"


def _numbers(test: GapTest) -> str:
    return (
        f"median gap {_median(test.noisy):.2g}{test.unit} at {counted(len(test.noisy), 'noisy step')}, "
        f"{_median(test.clean):.2g}{test.unit} at {len(test.clean)} clean, p = {test.p:.2g}, {test.best:.2g} at best"
    )


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def gaps_of(evidence: Evidence, control: Mapping[int, float] | None, witness: str = "") -> dict[int, float]:
    """The gap by step, in units of the control's at the same step where that is given; finite values only.

    What stands in for the gap is a mean with a sign, which is about 0 in a control: no unit for anything.
    """
    gaps = series(evidence, gap_metric(evidence, witness))
    if control is None or witness:
        return {step: abs(gap) for step, gap in gaps.items() if math.isfinite(gap)}
    return {
        step: gap / control[step]
        for step, gap in gaps.items()
        if math.isfinite(gap) and math.isfinite(control.get(step, math.nan)) and control[step] > 0
    }


def _strongest(found: Application, steps: Sequence[int], clean: int) -> Sequence[int]:
    strengths = {step: found.strength(step) for step in steps}
    floor = _STRONG * max(strengths.values(), default=0.0)
    strong = [step for step, strength in strengths.items() if strength >= floor]
    return strong if best_p(len(strong), clean) < ALPHA else steps
