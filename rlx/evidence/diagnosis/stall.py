"""Recognise a run that hangs: no new step for many times the duration of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rlx.evidence.grammars import names_of, own_or_all
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import finite, series
from rlx.evidence.run_evidence import Evidence
from rlx.model import Expectations, Finding, Severity

# The first steps compile kernels and fill caches.
_FEWEST_STEPS = 3
_MANY = 10.0
_LEAST_S = 600.0
_UNKNOWN_VALIDATION_S = 7200.0
_SILENT_START_S = 1200.0
_NEAR_END = 2
_RAY_WAITS = "Ray waits without a message where it cannot place the workers"


@dataclass(frozen=True, slots=True)
class Quiet:
    """Seconds by the clock of the run's host since it logged a step, since it logged anything, and since its start."""

    step_s: float | None = None
    log_s: float | None = None
    run_s: float | None = None

    @property
    def without_step_s(self) -> float | None:
        """The seconds since the last step; a log without any line has no step either."""
        return self.step_s if self.step_s is not None else self.log_s


def is_stalled(evidence: Evidence, expectations: Expectations, quiet: Quiet) -> bool:
    """Tell whether it hangs. The start is exempt, and so is a validation of unknown length."""
    patience = _patience_s(evidence, expectations)
    return patience is not None and quiet.without_step_s is not None and quiet.without_step_s > patience


def _patience_s(evidence: Evidence, expectations: Expectations) -> float | None:
    """Return how long the next step may take before a warning; None while it cannot be known."""
    times = _step_times(evidence)
    if len(times) < _FEWEST_STEPS:
        return None
    validations = _times(evidence, Role.VALIDATION_SECONDS)
    extra = sum(max(times, default=0.0) for times in (validations, _times(evidence, Role.SAVE_SECONDS)))
    patience = max(_LEAST_S, _MANY * median(times) + 3 * extra)
    is_due = evidence.last_step + 1 in expectations.validation_steps
    return max(patience, _UNKNOWN_VALIDATION_S) if is_due and not validations else patience


def _step_times(evidence: Evidence) -> list[float]:
    return _times(evidence, Role.STEP_SECONDS)


def _times(evidence: Evidence, role: Role) -> list[float]:
    names = names_of(role, evidence.backend)
    return next((list(found.values()) for key in names if (found := finite(series(evidence, key)))), [])


def stalls(evidence: Evidence, expectations: Expectations, quiet: Quiet) -> Iterator[Finding]:
    """Report a run that hangs, with the known causes at that place. Without evidence it is starting."""
    if not evidence.metrics:
        yield from _silent_start(quiet, _known(evidence, "at_start"))
    elif is_stalled(evidence, expectations, quiet):
        total = evidence.total_steps or expectations.total_steps
        left = None if total is None else total - evidence.last_step
        yield _no_end(evidence, quiet) if left is not None and left <= 0 else _no_step(evidence, quiet, left)


def _no_end(evidence: Evidence, quiet: Quiet) -> Finding:
    return _finding(
        "RLX892",
        f"the last step ({evidence.last_step}) was logged {_minutes(quiet.without_step_s)} ago, "
        "but the run does not end",
        f"{'; '.join(_known(evidence, 'at_end')) or 'it may hang after the last validation'}: "
        "if it is in the log, the numbers are complete; rlx stop RUN",
        evidence.last_step,
    )


def _no_step(evidence: Evidence, quiet: Quiet, left: int | None) -> Finding:
    near_end = _known(evidence, "near_end") if left is not None and left <= _NEAR_END else []
    known = (
        "; ".join(near_end) or "a rank may hang in a collective operation, or the rollout waits for an endless answer"
    )
    return _finding(
        "RLX890",
        f"no new step for {_minutes(quiet.without_step_s)} after step {evidence.last_step}, "
        f"where a step takes {median(_step_times(evidence)):.3g} s",
        f"{known}: py-spy dump of its processes shows where; rlx stop RUN",
        evidence.last_step,
    )


def _silent_start(quiet: Quiet, known: Sequence[str]) -> Iterator[Finding]:
    if min(quiet.log_s or 0.0, quiet.run_s or 0.0) > _SILENT_START_S:
        yield _finding(
            "RLX891",
            f"no step yet, and no line in the log for {_minutes(quiet.log_s)}",
            "; ".join((_RAY_WAITS, *known, "ray status in the container")),
            None,
        )


def _known(evidence: Evidence, place: str) -> list[str]:
    """List the hangs that are known of the run's back-end; of any, where it is unknown."""
    words = (getattr(each.hangs, place) for each in own_or_all(evidence.backend))
    return [each for each in words if each]


def _minutes(seconds: float | None) -> str:
    return f"{(seconds or 0) / 60:.0f} min"


def _finding(id: str, message: str, fix: str, step: int | None) -> Finding:
    return Finding(id, Severity.WARNING, message, fix, step=step)
