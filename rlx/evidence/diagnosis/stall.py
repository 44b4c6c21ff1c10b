"""Recognise a run that stands still: no new step for many times what a step takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlx.evidence.metrics import finite, series
from rlx.evidence.run_evidence import Evidence
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
    """Tell whether it stands still. Start-up is exempt, and so is a validation of unknown length."""
    patience = _patience_s(evidence, expectations)
    return patience is not None and quiet.without_step_s is not None and quiet.without_step_s > patience


def _patience_s(evidence: Evidence, expectations: Expectations) -> float | None:
    """Say how long the next step may take before it is worth a word; None while nobody can know."""
    times = _step_times(evidence)
    if len(times) < _FEWEST_STEPS:
        return None
    extra = sum(max(finite(series(evidence, key)).values(), default=0.0) for key in _EXTRA_TIMES)
    patience = max(_LEAST_S, _MANY * median(times) + 3 * extra)
    is_due = evidence.last_step + 1 in expectations.validation_steps
    never_timed = not series(evidence, _EXTRA_TIMES[0])
    return max(patience, _UNKNOWN_VALIDATION_S) if is_due and never_timed else patience


def _step_times(evidence: Evidence) -> list[float]:
    return next((list(found.values()) for key in _STEP_TIMES if (found := finite(series(evidence, key)))), [])


def stalls(evidence: Evidence, expectations: Expectations, quiet: Quiet) -> Iterator[Finding]:
    """Name what stands still, with the silent hangs that are known of that place. No evidence: it is starting."""
    if not evidence.metrics:
        yield from _silent_start(quiet)
    elif is_stalled(evidence, expectations, quiet):
        total = evidence.total_steps or expectations.total_steps
        left = None if total is None else total - evidence.last_step
        yield _no_end(evidence, quiet) if left is not None and left <= 0 else _no_step(evidence, quiet, left)


def _no_end(evidence: Evidence, quiet: Quiet) -> Finding:
    return _finding(
        "RLX892",
        f"the last step ({evidence.last_step}) was logged {_minutes(quiet.without_step_s)} ago, "
        "and the run does not end",
        "verl is known to hang in Ray's shutdown after the last validation: "
        "if that is in the log the numbers are complete; rlx stop RUN",
        evidence.last_step,
    )


def _no_step(evidence: Evidence, quiet: Quiet, left: int | None) -> Finding:
    known = (
        "verl is known to hang one or two steps before the end, where the data ends before the steps do"
        if left is not None and left <= _NEAR_END
        else "a rank may be stuck in a collective, or the rollout waits for an answer without end"
    )
    return _finding(
        "RLX890",
        f"no new step for {_minutes(quiet.without_step_s)} after step {evidence.last_step}, "
        f"where a step takes {median(_step_times(evidence)):.3g} s",
        f"{known}: py-spy dump of its processes says where; rlx stop RUN",
        evidence.last_step,
    )


def _silent_start(quiet: Quiet) -> Iterator[Finding]:
    if min(quiet.log_s or 0.0, quiet.run_s or 0.0) > _SILENT_START_S:
        yield _finding(
            "RLX891",
            f"no step yet, and not a line in the log for {_minutes(quiet.log_s)}",
            "Ray waits without a word where it cannot place the workers; MindSpeed-RL does with fewer than 8 CPUs for "
            "each NPU (ray.get(pg.ready())): lower num_cpus_for_placement_group; ray status in the container",
            None,
        )


def _minutes(seconds: float | None) -> str:
    return f"{(seconds or 0) / 60:.0f} min"


def _finding(id: str, message: str, fix: str, step: int | None) -> Finding:
    return Finding(id, Severity.WARNING, message, fix, step=step)
