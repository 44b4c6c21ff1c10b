"""Check a run that was planned without noise, or without any plan, for noise and for words that announce it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import Basis, CheckInput
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, at_steps, invalid, unverified


def check(given: CheckInput) -> Iterator[Charge]:
    if given.basis in Basis.UNPLANNED:
        yield from _only_in_words(given.evidence)
    elif given.noise is None:
        yield from _in_quiet_arm(given.evidence)


def _in_quiet_arm(evidence: Evidence) -> Iterator[Charge]:
    """Charge noise in an arm that was planned without any."""
    noisy = [event for event in evidence.noise if event.is_noisy]
    if not noisy:
        if said := _only_announced(evidence):
            yield unverified(
                "RLX619",
                "this arm was planned without noise, and its log announces "
                f"{said}, with no line that says it was added",
                "does its recipe, or a payload left from another arm, switch AQN on?",
            )
        return
    steps = [event.step for event in noisy if event.step is not None]
    yield invalid(
        "RLX605",
        f"this arm was planned without noise, but {noisy[0].layers} layers got some"
        + (f" at {at_steps(steps)}" if steps else f" ({len(noisy)} lines)"),
        "does its recipe, or a payload left from another arm, switch AQN on?",
        min(steps, default=None),
    )


def _only_in_words(evidence: Evidence) -> Iterator[Charge]:
    """Charge a log without a recipe by its own words: there was to be noise, and there was none."""
    if not any(event.is_noisy for event in evidence.noise) and (said := _only_announced(evidence)):
        yield unverified(
            "RLX619",
            f"its log announces noise ({said}), with no line that says it was added: an arm without noise, it seems",
            "take it in with --recipe, which says what was to be",
        )


def _only_announced(evidence: Evidence) -> str:
    """Find noise that somebody meant to add: by a fork that fails to, or by code with words of its own."""
    sigmas = [said.sigma for said in evidence.announced if said.sigma > 0 and (said.step or 0) <= evidence.last_step]
    without_layers = [event.sigma for event in evidence.noise if event.sigma != 0]
    return f"sigma {max(sigmas):g}" if sigmas else "it for 0 layers" if without_layers else ""
