"""Say in one line what may be said of a comparison: the first words of every form of it."""

from __future__ import annotations

from rlx.compare.comparison_values import Comparison, Contrast
from rlx.compare.error_rates import ALPHA
from rlx.compare.factors import credited
from rlx.compare.findings import brief
from rlx.compare.registered_words import registered_claim
from rlx.compare.sentences import unverified_words

EXPLORATORY = "exploratory, for the question was not registered before the launch"
_NAME, _NAMED = 60, 3


def claim(comparison: Comparison) -> str:
    """`exploratory …: two checkpoints; no claim about aqn`; "" where there is no result.

    Of a registered experiment its answer, or why there is none: `registered, 5 seeds: yes, aqn is better than …`.
    """
    words = _claim(comparison)
    return f"{words}{waived_in_words(comparison)}" if words else ""


def waived_in_words(comparison: Comparison) -> str:
    """`; findings waived: RLX705 (fast-s1, fast-s2)`; "" where no run has any."""
    by_id: dict[str, list[str]] = {}
    for run in comparison.runs:
        for id in run.verdict.waived:
            by_id.setdefault(id, []).append(run.label)
    said = ", ".join(f"{id} ({', '.join(labels)})" for id, labels in sorted(by_id.items()))
    return f"; findings waived: {said}" if said else ""


def _claim(comparison: Comparison) -> str:
    if comparison.registered:
        return registered_claim(comparison.registered)
    pairs = zip(comparison.treatments, comparison.contrasts, strict=True)
    found = [contrast for arm, contrast in pairs if contrast.is_result(comparison.control, arm)]
    said = dict.fromkeys(_of_arms(comparison, contrast) for contrast in found if _is_of_arms(contrast))
    silent = [contrast for contrast in found if not _is_of_arms(contrast)]
    if silent:
        names = " and ".join(_name(contrast) for contrast in silent)
        names = names if len(silent) <= _NAMED else f"{len(silent)} treatments"
        what = "values alone" if all(contrast.test is None for contrast in silent) else "two checkpoints"
        said[f"{what}; no claim about {names}"] = None
    caveat = unverified_words(comparison.unverified)
    what = "whole systems, no setting credited: " if comparison.systems else ""
    return f"{EXPLORATORY}: {caveat}{what}{'; '.join(said)}" if said else ""


def _is_of_arms(contrast: Contrast) -> bool:
    return contrast.test is not None and contrast.test.is_of_arms


def _name(contrast: Contrast) -> str:
    return credited(brief(contrast.treatment, _NAME), contrast.factors)


def _of_arms(comparison: Comparison, contrast: Contrast) -> str:
    control, treatment = brief(comparison.control.label, _NAME), _name(contrast)
    if contrast.p_value is not None and contrast.p_value < ALPHA:
        return f"{treatment} differs from {control}"
    return f"no difference shown between {control} and {treatment}"
