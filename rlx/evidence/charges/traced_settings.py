"""Check what the metrics and records of a run show of the settings of its recipe: RLX646 and RLX647."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.traces import KeyTrace, Shown
from rlx.evidence.verdict import Charge, invalid, unverified


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge a setting that the run's record contradicts, and one of which a trace was due and is not there."""
    for trace in given.traces:
        if trace.shown is Shown.CONTRADICTED:
            yield _contradicted(trace)
        elif trace.shown is Shown.SILENT and given.state.is_terminal:
            yield unverified(
                "RLX647",
                f"nothing shows that {trace.key} was applied: {trace.words}",
                "use a version of the back-end that logs it, and search the log for errors of the tracker",
            )


def _contradicted(trace: KeyTrace) -> Charge:
    return invalid(
        "RLX646",
        f"{trace.key} was not applied as configured: {trace.words}",
        "find what changes it after the configuration, such as the fork's own code; were the files of another run "
        "copied here?",
        trace.step,
    )
