"""Check that the last validation of a run of which nothing was planned has a value."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.metrics import core_metric, series
from rlx.evidence.verdict import Charge, incomplete


def check(given: CheckInput) -> Iterator[Charge]:
    """Take the last validation that the log has, because no schedule says when it was to be validated."""
    if not given.state.is_terminal:
        return
    evidence = given.evidence
    metric = core_metric(evidence, given.expectations)
    step, value = max(series(evidence, metric).items()) if metric else (0, 0.0)
    if not math.isfinite(value):
        message = f"the last validation, at step {step}, has no finite value: {metric} is {value}"
        yield incomplete("RLX702", message, "see why (rlx diagnose RUN)", step)
