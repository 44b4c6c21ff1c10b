"""The policy's loss: modes that a version lacks, values that a loss refuses, settings that it never reads.

Read in verl/trainer/ppo/core_algos.py of 0.6.1, 0.7.1, 0.8.0, 0.9.1 and main at 1dda039b: what is registered by
`register_policy_loss`, and what each of these functions takes of the actor's configuration.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.keys import numbers
from rlx.backends.verl.rules.facts import ACTOR, MODEL, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, note, rule, warning

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


@rule("RLX123")
def unknown_loss(facts: VerlFacts) -> Iterator[Flaw]:
    mode, version = facts.setting(MODE), _version(facts)
    known = [name for name, since in _SINCE.items() if version >= since]
    if not isinstance(mode, str) or not known or mode in known or facts.setting(f"{LOSS}.rollout_correction"):
        return
    say = warning if _may_register(facts) else error
    message = f"{facts.named(MODE)}: verl {facts.settings.version} has no such loss"
    yield say(message, f"use {', '.join(known)}", facts.source(MODE))


def _may_register(facts: VerlFacts) -> bool:
    """Tell whether code that is not verl's own takes part: it can register losses."""
    backend = facts.recipe.backend
    return bool(backend.key_source or backend.entrypoint or facts.setting(f"{MODEL}.external_lib"))


@rule("RLX124")
def unread_setting(facts: VerlFacts) -> Iterator[Flaw]:
    mode, written = facts.setting(MODE), facts.settings.written
    for key in (LOW, HIGH, DUAL):
        if key in _UNREAD.get(str(mode), ()) and key in written:
            # A habit of many scripts, and there is nothing that it could have cut off.
            say = note if key == DUAL else warning
            yield say(f"{facts.named(key)}: loss {mode} does not read it", f"remove {facts.source(key)}")
    if CLIP in written and _is_overruled(facts):
        bounds = f"{facts.named(LOW)} and {facts.named(HIGH)}"
        yield warning(f"{facts.named(CLIP)}: {bounds} count instead", f"set {LOW} and {HIGH}", facts.source(CLIP))
    if AGGREGATION in written and _is_fixed(facts) and facts.setting(AGGREGATION) != _BY_SEQUENCE:
        message = f"{facts.named(AGGREGATION)}: loss {mode} averages each sequence, whatever it is told"
        yield warning(message, f"{AGGREGATION} {_BY_SEQUENCE}, or another loss", facts.source(AGGREGATION))


def _is_overruled(facts: VerlFacts) -> bool:
    """Tell whether both bounds are set, and one of them to something else."""
    bounds = (facts.setting(LOW), facts.setting(HIGH))
    return None not in bounds and bounds != (facts.setting(CLIP), facts.setting(CLIP))


def _is_fixed(facts: VerlFacts) -> bool:
    mode = facts.setting(MODE)
    return mode in ("sapo", "geo_mean") or (mode == "gspo" and not _aggregates_as_told(facts))


def _aggregates_as_told(facts: VerlFacts) -> bool:
    """Tell whether GSPO reads loss_agg_mode: 0.9.1 does, neither 0.9.0 nor main at 1dda039b."""
    return (0, 9, 1) <= _version(facts) < (0, 10)


def _version(facts: VerlFacts) -> tuple[int, ...]:
    """Read its numbers; of 0.9 alone, those of its last release, whose keys rlx takes, too. Empty: it has none."""
    found = numbers(facts.settings.version)
    return (*found, _LAST) if len(found) == 2 else found


@rule("RLX125")
def gspo(facts: VerlFacts) -> Iterator[Flaw]:
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
def refused_value(facts: VerlFacts) -> Iterator[Flaw]:
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
def dppo(facts: VerlFacts) -> Iterator[Flaw]:
    mode, value = facts.setting(MODE), facts.setting(DUAL)
    if mode in ("dppo_tv", "dppo_kl") and isinstance(value, int | float) and value < _TRUNCATION:
        message = f"{facts.named(DUAL)} with loss {mode}: importance weights above it are cut off"
        yield warning(message, f"{DUAL}: 10000", facts.source(DUAL))
