"""Check further attempts against what was recorded when they were started: RLX053, RLX054, RLX055."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.run_evidence import BegunAttempt, Evidence
from rlx.evidence.verdict import CheckFinding, contradiction, counted, remark, unverified
from rlx.model import Severity


def check(given: CheckInput) -> Iterator[CheckFinding]:
    evidence = given.evidence
    for begun in evidence.begun:
        if begun.lineage is None and begun.loaded is None and given.has_recipe:
            yield unverified(
                "RLX054",
                f"attempt {begun.attempt} was not started by rlx, and its log names no checkpoint that was loaded",
                "start attempts with rlx retry",
            )
        if told := _otherwise(begun):
            yield unverified("RLX053", told, "read the log of that attempt; rlx retry RUN starts another")
    if evidence.reconfigured:
        shown = "; ".join(evidence.reconfigured[:3])
        more = f", and {len(evidence.reconfigured) - 3} more" if len(evidence.reconfigured) > 3 else ""
        yield contradiction(
            "RLX055", f"its attempts ran with different settings: {shown}{more}", "launch it again as one run"
        )
    yield from _restarts(evidence)


def _otherwise(begun: BegunAttempt) -> str:
    """Describe an attempt that continued elsewhere than recorded; empty where it did not, or nothing shows it."""
    if begun.lineage is None or (step := begun.lineage.step) is None:
        return ""
    planned = f"was planned to continue from the checkpoint of step {step}" if step else "was planned to start anew"
    if begun.loaded is not None and begun.loaded != step:
        return f"attempt {begun.attempt} {planned}, but loaded that of step {begun.loaded}"
    if begun.first_step is not None and begun.first_step <= step:
        return f"attempt {begun.attempt} {planned}, but its first step was {begun.first_step}"
    return ""


def _restarts(evidence: Evidence) -> Iterator[CheckFinding]:
    if evidence.restarts:
        own = [f"attempt {restart.attempt}" for restart in evidence.restarts]
        words = [
            restart.reason if restart.reason.startswith(name) else f"{name}: {restart.reason}"
            for name, restart in zip(own, evidence.restarts, strict=True)
        ]
        told = "; ".join(words[-3:])
        yield remark("RLX710", Severity.NOTE, f"{counted(len(evidence.restarts), 'restart')}: {told}")
