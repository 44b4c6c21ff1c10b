"""Check that validation generates in the precision in which the model is trained.

Both go through one rollout, so what differs is the rollout against the actor. That may be the point of an experiment;
whoever reads the values must know which model they are of.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.grammars import grammars
from rlx.evidence.verdict import Charge, remark
from rlx.model import Severity


def check(given: CheckInput) -> Iterator[Charge]:
    evidence = given.evidence
    said = ((each.precision, evidence.settings) for each in grammars(evidence.backend))
    found = ((precision.trained_in(settings), precision.validated_in(settings)) for precision, settings in said)
    trained, validated = next((both for both in found if all(both)), ("", ""))
    if trained != validated:
        yield remark(
            "RLX723",
            Severity.WARNING,
            f"trained in {trained}, validated in {validated}: the values are of another rounding than the training's",
            "validate the checkpoint in the precision that it is trained for, or say which one the values are of",
        )
