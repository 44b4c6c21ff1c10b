"""Check the policy's loss and the correction of off-policy samples: unknown modes, refused values, unread settings.

Read in verl/trainer/ppo/core_algos.py of 0.6.1, 0.7.1, 0.8.0, 0.9.1 and main at 1dda039b: what is registered by
`register_policy_loss`, and what each of these functions takes of the actor's configuration.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.key_names import (
    BYPASS,
    LOG_PROBS_KEY,
    REJECTION,
    REJECTION_LOW,
    REJECTION_THRESHOLD,
    SECTION,
    WEIGHTS,
    WEIGHTS_THRESHOLD,
    correction_of,
)
from rlx.backends.verl.keys import numbers
from rlx.backends.verl.rules.facts import ACTOR, MODEL, VerlFacts
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule, warning

LOSS = f"{ACTOR}.policy_loss"
MODE, AGGREGATION = f"{LOSS}.loss_mode", f"{ACTOR}.loss_agg_mode"
CLIP, LOW, HIGH, DUAL = (f"{ACTOR}.clip_ratio{end}" for end in ("", "_low", "_high", "_c"))
_SINCE = {
    "vanilla": (0, 6),
    "gspo": (0, 6),
    "gpg": (0, 6),
    "clip_cov": (0, 6),
    "kl_cov": (0, 6),
    "geo_mean": (0, 6),
    "sapo": (0, 7),
    "cispo": (0, 7),
    "dppo_tv": (0, 7, 1),
    "dppo_kl": (0, 7, 1),
    "dro": (0, 9),
}
# What a loss does not look at; the losses that are left out look at all four.
_UNREAD = {
    "gspo": {DUAL},
    "sapo": {LOW, HIGH, DUAL},
    "gpg": {LOW, HIGH, DUAL},
    "clip_cov": {DUAL},
    "kl_cov": {LOW, HIGH, DUAL},
    "geo_mean": {DUAL},
    "dro": {LOW, HIGH, DUAL},
    "cispo": {DUAL},
}
_LAST = 1_000
_BY_SEQUENCE = "seq-mean-token-mean"
# Ratios of whole sequences are near 1: the paper clips at 3e-4 and 4e-4, and its baseline GRPO at 0.2 and 0.27.
_WIDE_FOR_SEQUENCES = 0.05
# The default of the code, which the configuration's 3.0 hides.
_TRUNCATION = 20
_RATIO_KINDS = ("token_k1", "seq_sum_k1", "seq_mean_k1")
_KINDS = (
    *_RATIO_KINDS,
    *("token_k2", "token_k3", "seq_sum_k2", "seq_sum_k3"),
    *("seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3"),
)
# The kinds of verl 0.6, and what later ones call the same.
_KINDS_OF_06 = {"token": "token_k1", "sequence": "seq_sum_k1", "geometric": "seq_mean_k1"}


@rule("RLX123")
def unknown_loss(facts: VerlFacts) -> Iterator[RuleFinding]:
    mode, version = facts.setting(MODE), _version(facts)
    known = [name for name, since in _SINCE.items() if version >= since]
    if not isinstance(mode, str) or not known or mode in known or facts.setting(f"{LOSS}.rollout_correction"):
        return
    # Code that is not verl's own can register losses.
    backend = facts.recipe.backend
    has_other_code = backend.key_source or backend.entrypoint or facts.setting(f"{MODEL}.external_lib")
    report = warning if has_other_code else error
    message = f"{facts.named(MODE)}: verl {facts.settings.version} has no such loss"
    yield report(message, f"use {', '.join(known)}", facts.source(MODE))


@rule("RLX124")
def unread_setting(facts: VerlFacts) -> Iterator[RuleFinding]:
    mode, written = facts.setting(MODE), facts.settings.written
    for key in (LOW, HIGH, DUAL):
        if key in _UNREAD.get(str(mode), ()) and key in written:
            # A habit of many scripts, and there is nothing that it could have cut off.
            report = note if key == DUAL else warning
            yield report(f"{facts.named(key)}: loss {mode} does not read it", f"remove {facts.source(key)}")
    bounds = (facts.setting(LOW), facts.setting(HIGH))
    if CLIP in written and None not in bounds and bounds != (facts.setting(CLIP), facts.setting(CLIP)):
        named = f"{facts.named(LOW)} and {facts.named(HIGH)}"
        yield warning(f"{facts.named(CLIP)}: {named} count instead", f"set {LOW} and {HIGH}", facts.source(CLIP))
    is_fixed = mode in ("sapo", "geo_mean") or (mode == "gspo" and not _aggregates_as_told(facts))
    if AGGREGATION in written and is_fixed and facts.setting(AGGREGATION) != _BY_SEQUENCE:
        message = f"{facts.named(AGGREGATION)}: loss {mode} averages each sequence, whatever it is told"
        yield warning(message, f"{AGGREGATION} {_BY_SEQUENCE}, or another loss", facts.source(AGGREGATION))


@rule("RLX125")
def gspo(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.setting(MODE) != "gspo":
        return
    for key, usual in ((LOW, "3e-4"), (HIGH, "4e-4")):
        value = facts.setting(key)
        if isinstance(value, int | float) and value >= _WIDE_FOR_SEQUENCES:
            message = f"{facts.named(key)} with loss gspo: ratios of whole sequences are never that far from 1"
            yield warning(message, f"{key}: {usual}", facts.source(key))
    if _aggregates_as_told(facts) and facts.setting(AGGREGATION) != _BY_SEQUENCE:
        message = f"{facts.named(AGGREGATION)} with loss gspo: long answers count for more than short ones"
        yield warning(message, f"{AGGREGATION}: {_BY_SEQUENCE}", facts.source(AGGREGATION))


@rule("RLX126")
def refused_value(facts: VerlFacts) -> Iterator[RuleFinding]:
    bounds = {
        "vanilla": (DUAL, 1, False),
        "dro": (f"{LOSS}.dro_beta", 0, True),
        "clip_cov": (f"{LOSS}.clip_cov_ratio", 0, False),
        "kl_cov": (f"{LOSS}.kl_cov_ratio", 0, False),
    }
    mode = facts.setting(MODE)
    if not isinstance(mode, str) or mode not in bounds:
        return
    key, least, is_needed = bounds[mode]
    value = facts.setting(key)
    if (value is None and is_needed) or (isinstance(value, int | float) and value <= least):
        yield error(f"{facts.named(key)}: loss {mode} wants more than {least}", f"set {key}", facts.source(key))


@rule("RLX127")
def dppo(facts: VerlFacts) -> Iterator[RuleFinding]:
    mode, value = facts.setting(MODE), facts.setting(DUAL)
    if mode in ("dppo_tv", "dppo_kl") and isinstance(value, int | float) and value < _TRUNCATION:
        message = f"{facts.named(DUAL)} with loss {mode}: importance weights above it are cut off"
        yield warning(message, f"{DUAL}: 10000", facts.source(DUAL))


@rule("RLX660")
def noise_with_rejection(facts: VerlFacts) -> Iterator[RuleFinding]:
    correction = correction_of(facts.setting)
    if facts.recipe.aqn and correction and correction.rejection:
        yield warning(
            f"aqn with rejection {correction.rejection}: it takes the samples that the noise made differ; verl's own "
            "0.999_1.001 took 94 % of them at sigma 0.05",
            "weights in place of rejection, or a wider threshold",
            facts.source(REJECTION),
        )


@rule("RLX661")
def noise_without_correction(facts: VerlFacts) -> Iterator[RuleFinding]:
    known = any(key.startswith(f"{SECTION}.") for key in facts.settings.defaults)
    if facts.recipe.aqn and known and correction_of(facts.setting) is None:
        yield note(
            "aqn without algorithm.correction: the actor learns from noisy samples as if it had drawn them itself",
            "algorithm.correction: {weights: token} for all arms weighs them",
            "aqn",
        )


@rule("RLX662")
def noise_with_bypass(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.aqn and facts.is_true(BYPASS):
        yield note(
            f"{facts.named(BYPASS)}: the gap between rollout and actor is not logged; the second signal of the noise "
            "is abs(actor/ppo_kl), which was 1e-8 at sigma 0 and 3.5e-3 at 0.05",
            key=facts.source(BYPASS),
        )


@rule("RLX663")
def unknown_correction(facts: VerlFacts) -> Iterator[RuleFinding]:
    yield from _weights(facts)
    if facts.setting(REJECTION) is not None:
        yield from (_kinds_of_06 if REJECTION_LOW in facts.settings.defaults else _kinds)(facts)


@rule("RLX664")
def unused_correction(facts: VerlFacts) -> Iterator[RuleFinding]:
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


def _weights(facts: VerlFacts) -> Iterator[RuleFinding]:
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


def _kinds_of_06(facts: VerlFacts) -> Iterator[RuleFinding]:
    kind = facts.setting(REJECTION)
    if kind not in _KINDS_OF_06:
        same = [old for old, new in _KINDS_OF_06.items() if new == kind]
        yield _unknown_kind(facts, kind, same or list(_KINDS_OF_06))
    for key in (REJECTION_THRESHOLD, REJECTION_LOW):
        value = facts.setting(key)
        if not _is_number(value) and (key == REJECTION_THRESHOLD or value is not None):
            yield error(f"{facts.named(key)}: verl {facts.settings.version} takes a number", "1.001", facts.source(key))


def _kinds(facts: VerlFacts) -> Iterator[RuleFinding]:
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


def _unknown_kind(facts: VerlFacts, kind: object, others: list[str]) -> RuleFinding:
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


def _aggregates_as_told(facts: VerlFacts) -> bool:
    """Tell whether GSPO reads loss_agg_mode: 0.9.1 does, neither 0.9.0 nor main at 1dda039b."""
    return (0, 9, 1) <= _version(facts) < (0, 10)


def _version(facts: VerlFacts) -> tuple[int, ...]:
    """Read its numbers; of 0.9 alone, those of its last release, whose keys rlx takes, too. Empty: it has none."""
    found = numbers(facts.settings.version)
    return (*found, _LAST) if len(found) == 2 else found
