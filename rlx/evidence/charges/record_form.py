"""Check the form of a log: two runs in one file, an end in the middle of a line, a hole."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.metrics import forms, is_validation
from rlx.evidence.reading.timeline import RESUMED, WENT_BACK
from rlx.evidence.run_evidence import Evidence, Restart
from rlx.evidence.verdict import Charge, at_steps, counted, incomplete, unverified

_OWN_FILE = "give each run a log of its own"


def check(given: CheckInput) -> Iterator[Charge]:
    evidence = given.evidence
    yield from _gaps(evidence)
    yield from _two_runs(evidence)
    yield from _torn(evidence)
    if evidence.has_hole:
        yield unverified(
            "RLX722",
            "the log has a hole of zero bytes: what stood there is lost",
            "it was emptied while the run wrote to it, or the machine went down: append with tee -a, never truncate",
        )


def _gaps(evidence: Evidence) -> Iterator[Charge]:
    missing = sorted(set(range(1, evidence.last_step + 1)).difference(evidence.metrics))
    if not missing:
        return
    first = next((step for step in evidence.metrics if step > 0), 0)
    if missing[-1] < first and 0 not in evidence.metrics:
        why = "what went before it is another log" if _is_resumed(evidence) else "no line says that it was resumed"
        message = f"the log begins at step {first}, and {why}: no metrics at {at_steps(missing)}"
        yield incomplete("RLX704", message, "overwritten by a restart? take in all logs of the run; tee needs -a", 1)
    else:
        yield incomplete("RLX704", f"no metrics at {at_steps(missing)}", "is a part of the log lost?", missing[0])


def _torn(evidence: Evidence) -> Iterator[Charge]:
    """The metrics of the last step begin like those of another step and stop short of what a step always has.

    That shows without the end-of-line, too, which other processes may still have written.
    """
    others, last = forms(evidence)
    longer = [form for form in others if form[: len(last)] == last]
    if not last or last in others or not longer or all(map(is_validation, last)):
        return
    lost = longer[-1][len(last) :]
    if not all(map(is_validation, lost)):
        yield incomplete(
            "RLX721",
            f"the log breaks off in the metrics of step {evidence.last_step}: they end with {last[-1]}, maybe half of "
            f"its number, and lack {counted(len(lost), 'metric')} of other steps",
            "was it copied while the run went on, or the disk full? get the whole file",
            evidence.last_step,
        )


def _is_resumed(evidence: Evidence) -> bool:
    return any(restart.reason.startswith(RESUMED) for restart in evidence.restarts)


def _two_runs(evidence: Evidence) -> Iterator[Charge]:
    """An attempt of its own has a log of its own; one that went on from a checkpoint says so."""
    back = [restart for restart in evidence.restarts if WENT_BACK in restart.reason]
    if back:
        yield unverified("RLX720", _two_runs_words(back[0]), _OWN_FILE, back[0].step)


def _two_runs_words(restart: Restart) -> str:
    return f"one log holds two runs: {restart.reason}, and no line says that it was resumed; the later one counts"
