"""Hold further attempts against what was written down when they were begun: RLX053, RLX054, RLX055."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.run_evidence import BegunAttempt, Evidence
from rlx.evidence.verdict import Charge, dissent, unverified


def charges(evidence: Evidence, *, launched: bool) -> Iterator[Charge]:
    """`launched`: by rlx, which writes down why it begins an attempt."""
    for begun in evidence.begun:
        if begun.lineage is None and begun.loaded is None and launched:
            yield unverified(
                "RLX054",
                f"attempt {begun.attempt} was not begun by rlx, and its log names no checkpoint that it went on from",
                "begin attempts with rlx retry",
            )
        if told := _otherwise(begun):
            yield unverified("RLX053", told, "look at the log of that attempt; rlx retry RUN begins another")
    if evidence.reconfigured:
        shown = "; ".join(evidence.reconfigured[:3])
        more = f", and {len(evidence.reconfigured) - 3} more" if len(evidence.reconfigured) > 3 else ""
        yield dissent(
            "RLX055", f"its attempts ran with different settings: {shown}{more}", "launch it again as one run"
        )


def _otherwise(begun: BegunAttempt) -> str:
    """Say where an attempt went on elsewhere than was written down; empty where it did not, or nothing shows it."""
    if begun.lineage is None or (step := begun.lineage.step) is None:
        return ""
    planned = f"was to go on from the checkpoint of step {step}" if step else "was to begin anew"
    if begun.loaded is not None and begun.loaded != step:
        return f"attempt {begun.attempt} {planned}, and loaded that of step {begun.loaded}"
    if begun.first_step is not None and begun.first_step <= step:
        return f"attempt {begun.attempt} {planned}, and its first step was {begun.first_step}"
    return ""
