"""Whether a run that has not ended stands still: no new step for many times what a step takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlx.evidence.metrics import finite, series
from rlx.evidence.values import Evidence
from rlx.plan import Expectations, Finding, Severity

_STEP_TIMES = ("timing_s/step", "perf/time_per_step", "timing/all")
_EXTRA_TIMES = ("timing_s/testing", "timing_s/save_checkpoint")
# The first steps compile kernels and fill caches.
_FEWEST_STEPS = 3
_MANY = 10.0
_LEAST_S = 600.0
_UNKNOWN_VALIDATION_S = 7200.0
_SILENT_START_S = 1200.0
_NEAR_END = 2


@dataclass(frozen=True, slots=True)
class Quiet:
    """Seconds by the clock of the run's host since it logged a step, since it logged anything, and since its start."""

    step_s: float | None = None
    log_s: float | None = None
    run_s: float | None = None

    @property
    def without_step_s(self) -> float | None:
        """A silent log has no step either."""
        return self.step_s if self.step_s is not None else self.log_s


def is_stalled(evidence: Evidence, expectations: Expectations, quiet: Quiet) -> bool:
    """Start-up is exempt, and so is a validation of unknown length."""
    patience = patience_s(evidence, expectations)
    return patience is not None and quiet.without_step_s is not None and quiet.without_step_s > patience


def patience_s(evidence: Evidence, expectations: Expectations) -> float | None:
    """How long the next step may take before it is worth a word; None while nobody can know."""
    times = next((list(found.values()) for key in _STEP_TIMES if (found := finite(series(evidence, key)))), [])
    if len(times) < _FEWEST_STEPS:
        return None
    extra = sum(max(finite(series(evidence, key)).values(), default=0.0) for key in _EXTRA_TIMES)
    patience = max(_LEAST_S, _MANY * median(times) + 3 * extra)
    is_due = evidence.last_step + 1 in expectations.validation_steps
    never_timed = not series(evidence, _EXTRA_TIMES[0])
    return max(patience, _UNKNOWN_VALIDATION_S) if is_due and never_timed else patience


def stalls(evidence: Evidence, expectations: Expectations, quiet: Quiet) -> Iterator[Finding]:
    """What stands still, with the silent hangs that are known of that place."""
    if not evidence.metrics:
        yield from _silent_start(quiet)
    elif is_stalled(evidence, expectations, quiet):
        seconds, step = quiet.without_step_s or 0.0, evidence.last_step
        total = evidence.total_steps or expectations.total_steps
        usual = (patience_s(evidence, expectations) or 0.0) / _MANY
        if total is not None and step >= total:
            yield _finding(
                "RLX892",
                f"the last step ({step}) was logged {seconds / 60:.0f} min ago, and the run does not end",
                "verl is known to hang in Ray's shutdown after the last validation: "
                "if that is in the log the numbers are complete; rlx stop RUN",
                step,
            )
            return
        near = total is not None and total - step <= _NEAR_END
        yield _finding(
            "RLX890",
            f"no new step for {seconds / 60:.0f} min after step {step}, where a step takes under {usual:.0f} s",
            (
                "verl is known to hang one or two steps before the end, where the data ends before the steps do: "
                if near
                else "a rank may be stuck in a collective, or the rollout waits for an answer without end: "
            )
            + "py-spy dump of its processes says where; rlx stop RUN",
            step,
        )


def _silent_start(quiet: Quiet) -> Iterator[Finding]:
    if min(quiet.log_s or 0.0, quiet.run_s or 0.0) > _SILENT_START_S:
        yield _finding(
            "RLX891",
            f"no step yet, and not a line in the log for {(quiet.log_s or 0) / 60:.0f} min",
            "Ray waits without a word where it cannot place the workers; MindSpeed-RL does with fewer than 8 CPUs for "
            "each NPU (ray.get(pg.ready())): lower num_cpus_for_placement_group; ray status in the container",
            None,
        )


def _finding(id: str, message: str, fix: str, step: int | None) -> Finding:
    return Finding(id, Severity.WARNING, message, fix, step=step)
