"""Check what the metrics and records of a run show of the settings of its recipe: RLX646 and RLX647."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.traces import KeyTrace, Shown
from rlx.evidence.verdict import Charge, invalid, unverified
from rlx.model.verdict_rules import is_made

NOISE = "aqn"
"""The section of a recipe that describes noise."""
_NAMED = 4


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


def sentence(given: CheckInput, rules: int) -> Iterator[str]:
    """Say of each factor of the treatment what shows it; noise has sentences of its own, and older rules had none."""
    if not is_made("RLX646", rules):
        return
    traces = [trace for trace in given.traces if trace.key in given.setup.treatment and not is_noise(trace.key)]
    yield from map(_words, traces[:_NAMED])
    if len(traces) > _NAMED:
        yield f"{len(traces) - _NAMED} more settings of the treatment"


def is_noise(key: str) -> bool:
    """Tell whether a recipe key is of the noise, which has checks of its own."""
    return key.partition(".")[0] == NOISE


def _words(trace: KeyTrace) -> str:
    """`train.lr shown by actor/lr at 20 steps`; `rollout.temperature in the composed configuration only`."""
    if trace.shown is Shown.SHOWN:
        return f"{trace.key} shown by {trace.words}"
    if trace.shown is Shown.NOT_OBSERVABLE:
        return f"{trace.key} not observable ({trace.words})"
    return f"{trace.key} {trace.shown}"


def _contradicted(trace: KeyTrace) -> Charge:
    return invalid(
        "RLX646",
        f"{trace.key} was not applied as configured: {trace.words}",
        "find what changes it after the configuration, such as the fork's own code; were the files of another run "
        "copied here?",
        trace.step,
    )
