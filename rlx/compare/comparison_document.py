"""A comparison as JSON: what `rlx compare --json` prints, and a bundle claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.compare.claim import claim
from rlx.compare.compared_arms import ComparedArm
from rlx.compare.comparison_values import Comparison
from rlx.compare.registered_words import registered_lines
from rlx.model import to_jsonable


def comparison_document(comparison: Comparison) -> Mapping[str, Any]:
    """The whole comparison; the values of a step stand in the order control, treatments.

    `answer`: that to the registered question, in words.
    """
    return {
        **to_jsonable(comparison),
        "control": _arm(comparison.control),
        "treatments": [_arm(arm) for arm in comparison.treatments],
        "claim": claim(comparison),
        "answer": [*registered_lines(comparison.registered)] if comparison.registered else [],
        "interim": comparison.interim,
        "reportable": comparison.reportable,
        "verified": comparison.verified,
    }


def _arm(arm: ComparedArm) -> Mapping[str, Any]:
    """The arm with its runs; an arm of one run has the keys of the run, too, as when it could be nothing else.

    `struck`: its numbers are no result. `repeats` is there only where the runs are repeats of one seed.
    """
    single = to_jsonable(arm.runs[0]) if len(arm.runs) == 1 else {}
    found = {**single, **to_jsonable(arm), "struck": arm.struck}
    return found if arm.repeats else {key: value for key, value in found.items() if key != "repeats"}
