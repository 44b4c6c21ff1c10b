"""Hold the correction of off-policy samples against what verl applies, and against the noise that makes them so."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.correction import (
    BYPASS,
    REJECTION,
    REJECTION_LOW,
    REJECTION_THRESHOLD,
    SECTION,
    WEIGHTS,
    WEIGHTS_THRESHOLD,
    correction_of,
)
from rlx.backends.verl.overrides.rollout import LOG_PROBS_KEY
from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, note, rule, warning

_RATIO_KINDS = ("token_k1", "seq_sum_k1", "seq_mean_k1")
_KINDS = (
    *_RATIO_KINDS,
    *("token_k2", "token_k3", "seq_sum_k2", "seq_sum_k3"),
    *("seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3"),
)
# The kinds of verl 0.6, and what later ones call the same.
_KINDS_OF_06 = {"token": "token_k1", "sequence": "seq_sum_k1", "geometric": "seq_mean_k1"}


@rule("RLX660")
def noise_with_rejection(facts: VerlFacts) -> Iterator[Flaw]:
    correction = correction_of(facts.setting)
    if facts.recipe.aqn and correction and correction.rejection:
        yield warning(
            f"aqn with rejection {correction.rejection}: it takes the samples that the noise made differ; verl's own "
            "0.999_1.001 took 94 % of them at sigma 0.05",
            "weights in place of rejection, or a wider threshold",
            facts.source(REJECTION),
        )


@rule("RLX661")
def noise_without_correction(facts: VerlFacts) -> Iterator[Flaw]:
    known = any(key.startswith(f"{SECTION}.") for key in facts.settings.defaults)
    if facts.recipe.aqn and known and correction_of(facts.setting) is None:
        yield note(
            "aqn without algorithm.correction: the actor learns from noisy samples as if it had drawn them itself",
            "algorithm.correction: {weights: token} for all arms weighs them",
            "aqn",
        )


@rule("RLX662")
def noise_with_bypass(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.recipe.aqn and facts.is_true(BYPASS):
        yield note(
            f"{facts.named(BYPASS)}: the gap between rollout and actor is not logged; the second witness of the noise "
            "is abs(actor/ppo_kl), which was 1e-8 at sigma 0 and 3.5e-3 at 0.05",
            key=facts.source(BYPASS),
        )


@rule("RLX663")
def unknown_correction(facts: VerlFacts) -> Iterator[Flaw]:
    yield from _weights(facts)
    if facts.setting(REJECTION) is not None:
        yield from (_kinds_of_06 if REJECTION_LOW in facts.settings.defaults else _kinds)(facts)


@rule("RLX664")
def unused_correction(facts: VerlFacts) -> Iterator[Flaw]:
    correction = correction_of(facts.setting)
    if correction is None:
        return
    if not facts.is_true(LOG_PROBS_KEY):
        message = f"{facts.named(LOG_PROBS_KEY)}: without the rollout's probabilities nothing is corrected"
        yield error(message, f"remove {facts.source(LOG_PROBS_KEY)}", facts.source(LOG_PROBS_KEY))
    for key, kind in ((REJECTION, correction.rejection), (WEIGHTS, correction.weights)):
        if correction.bypass and kind:
            message = f"{facts.named(key)}: with bypass verl neither weighs nor rejects, whatever it is told"
            yield error(message, "no bypass, or neither weights nor rejection", facts.source(key))


def _weights(facts: VerlFacts) -> Iterator[Flaw]:
    level, threshold = facts.setting(WEIGHTS), facts.setting(WEIGHTS_THRESHOLD)
    if level is None:
        return
    if level not in ("token", "sequence"):
        yield error(f"{facts.named(WEIGHTS)}: verl weighs by token or sequence", "token", facts.source(WEIGHTS))
    two = facts.release >= (0, 8)
    if not (_is_bound(threshold, pairs=True) if two else _is_number(threshold)):
        since = "" if two else "; two bounds are taken since verl 0.8"
        message = f"{facts.named(WEIGHTS_THRESHOLD)}: verl {facts.settings.version} takes a number above 0{since}"
        yield error(message, "2.0", facts.source(WEIGHTS_THRESHOLD))


def _kinds_of_06(facts: VerlFacts) -> Iterator[Flaw]:
    kind = facts.setting(REJECTION)
    if kind not in _KINDS_OF_06:
        same = [old for old, new in _KINDS_OF_06.items() if new == kind]
        yield _unknown_kind(facts, kind, same or list(_KINDS_OF_06))
    for key in (REJECTION_THRESHOLD, REJECTION_LOW):
        value = facts.setting(key)
        if not _is_number(value) and (key == REJECTION_THRESHOLD or value is not None):
            yield error(f"{facts.named(key)}: verl {facts.settings.version} takes a number", "1.001", facts.source(key))


def _kinds(facts: VerlFacts) -> Iterator[Flaw]:
    kinds = [kind.strip() for kind in str(facts.setting(REJECTION)).split(",")]
    for kind in kinds:
        if kind not in _KINDS:
            yield _unknown_kind(facts, kind, [_KINDS_OF_06[kind]] if kind in _KINDS_OF_06 else list(_KINDS))
    value = facts.setting(REJECTION_THRESHOLD)
    bounds: list[object] = [*value.split(",")] if isinstance(value, str) else [value]
    if len(bounds) not in (1, len(kinds)):
        message = f"{facts.named(REJECTION_THRESHOLD)}: {len(bounds)} thresholds for {len(kinds)} kinds"
        yield error(message, "one for all, or one each", facts.source(REJECTION_THRESHOLD))
        return
    for kind, bound in zip(kinds, bounds * len(kinds), strict=False):
        pairs = kind in _RATIO_KINDS
        if kind in _KINDS and not _is_bound(bound, pairs=pairs):
            wanted = "LOW_HIGH, such as 0.5_2.0" if pairs else "one number above 0"
            message = f"{facts.named(REJECTION_THRESHOLD)}: {kind} takes {wanted}"
            yield error(message, "0.5_2.0" if pairs else "0.01", facts.source(REJECTION_THRESHOLD))


def _unknown_kind(facts: VerlFacts, kind: object, others: list[str]) -> Flaw:
    message = f"{facts.named(REJECTION)}: verl {facts.settings.version} knows no rejection {kind}"
    return error(message, f"write {' or '.join(others)}", facts.source(REJECTION))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_bound(value: object, *, pairs: bool) -> bool:
    """Tell whether it is a number above 0, maybe as text, or where `pairs` are taken two, the lower one first."""
    if not isinstance(value, str):
        return _is_number(value)
    bounds = [_number(part) for part in value.split("_")]
    return len(bounds) <= 1 + pairs and all(bound > 0 for bound in bounds) and bounds == sorted(bounds)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
