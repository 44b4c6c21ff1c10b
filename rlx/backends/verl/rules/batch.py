"""Batch arithmetic of verl: what its workers assert before, and minutes after, the start."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, REF, ROLLOUT, VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

BATCH, MINI, SAMPLES = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n"
MICRO = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
BYPASS = "algorithm.rollout_correction.bypass_mode"
LOG_MICRO, REF_MICRO = (f"{role}.log_prob_micro_batch_size_per_gpu" for role in (ROLLOUT, REF))


@rule("RLX103")
def samples_over_devices(facts: VerlFacts) -> Iterator[Flaw]:
    micro = facts.count(MICRO) if facts.is_megatron else 1
    workers = facts.data_parallel if facts.is_megatron else facts.devices
    batch, n = facts.count(BATCH), facts.count(SAMPLES)
    if not (facts.fixed_micro_batches and facts.samples and workers and micro and batch and n):
        return
    least = workers * micro
    if facts.samples % least:
        step = least // math.gcd(least, n)
        fits = sorted({max(step, batch // step * step), -(-batch // step) * step})
        message = f"{facts.named(BATCH)} × {facts.named(SAMPLES)} = {facts.samples} samples are no multiple of {least}"
        made_of = f"{workers} data-parallel groups × {facts.named(MICRO)}" if facts.is_megatron else f"{least} devices"
        yield error(f"{message} ({made_of})", f"train.batch_size {one_of(fits)}", facts.source(BATCH))


@rule("RLX104")
def micro_batch(facts: VerlFacts) -> Iterator[Flaw]:
    micro, share = facts.count(MICRO), _share(facts, _dealt_samples(facts))
    # Megatron's workers before 0.8 only cut the mini batch into pieces.
    asserts = facts.release >= (0, 8) or not facts.is_megatron
    if facts.fixed_micro_batches and asserts and micro and share and share % micro:
        yield _indivisible(facts, MICRO, micro, share, "a device has of each mini batch")


@rule("RLX105")
def mini_batch_over_groups(facts: VerlFacts) -> Iterator[Flaw]:
    groups, mini, n = facts.data_parallel, facts.count(MINI), facts.count(SAMPLES)
    if not (groups and mini and n and facts.mini_samples) or facts.mini_samples % groups == 0:
        return
    step = groups // math.gcd(groups, n)
    fits = sorted({max(step, mini // step * step), -(-mini // step) * step})
    message = f"{facts.named(MINI)} × {facts.named(SAMPLES)} = {facts.mini_samples} samples"
    fix = f"train.mini_batch_size {one_of(fits)}"
    if facts.release >= (0, 8) or facts.mini_samples < groups:
        yield error(f"{message} are no multiple of the {groups} data-parallel groups", fix, facts.source(MINI))
    else:
        left = facts.mini_samples // groups * groups
        yield warning(f"{message}: verl {facts.settings.version} makes {left} of them ({groups} groups)", fix)


@rule("RLX106")
def mini_batch_in_batch(facts: VerlFacts) -> Iterator[Flaw]:
    batch, mini = facts.count(BATCH), facts.count(MINI)
    if facts.fixed_micro_batches and not facts.is_nla and batch and mini and mini > batch:
        message = f"{facts.named(MINI)} is larger than {facts.named(BATCH)}"
        yield error(message, f"train.mini_batch_size {one_of(near(divisors(batch), mini))}", facts.source(MINI))


@rule("RLX107")
def log_prob_micro_batch(facts: VerlFacts) -> Iterator[Flaw]:
    micro, share = facts.count(LOG_MICRO), _share(facts, _padded_samples(facts))
    # In bypass mode the rollout's own log-probabilities are taken, and there is no such pass.
    left_out = facts.is_true(f"{ROLLOUT}.log_prob_use_dynamic_bsz") or facts.is_true(BYPASS)
    if facts.release >= (0, 8) and not left_out and micro and share and share % micro:
        yield _indivisible(facts, LOG_MICRO, micro, share, "a device has of each step")


@rule("RLX108")
def reference_micro_batch(facts: VerlFacts) -> Iterator[Flaw]:
    micro, share = facts.count(REF_MICRO), _share(facts, _padded_samples(facts))
    dynamic = facts.is_true(f"{REF}.log_prob_use_dynamic_bsz")
    # Where one recipe key feeds both passes, RLX107 has said it.
    counts = facts.release >= (0, 8) and not dynamic and facts.source(REF_MICRO) != facts.source(LOG_MICRO)
    if _has_reference(facts) and counts and micro and share and share % micro:
        yield _indivisible(facts, REF_MICRO, micro, share, "a device has of each step")


@rule("RLX109")
def one_micro_batch_key(facts: VerlFacts) -> Iterator[Flaw]:
    keys = [(MICRO, facts.fixed_micro_batches), (LOG_MICRO, facts.fixed_micro_batches)]
    keys.append((REF_MICRO, facts.fixed_micro_batches and _has_reference(facts)))
    for key, counts in keys:
        old = key.removesuffix("_per_gpu")
        values = [facts.setting(key), facts.setting(old)]
        if counts and None not in values:
            yield error(f"both {facts.named(old)} and {facts.named(key)} are set", f"remove {facts.source(old)}")
        elif counts and values == [None, None]:
            yield error(f"neither {key} nor {old} is set", f"remove {facts.source(key)}")


@rule("RLX110")
def mini_batches_in_batch(facts: VerlFacts) -> Iterator[Flaw]:
    batch, mini = facts.count(BATCH), facts.count(MINI)
    if not batch or not mini or mini > batch or batch % mini == 0:
        return
    message = f"{facts.named(MINI)} does not divide {facts.named(BATCH)}"
    fix = f"train.mini_batch_size {one_of(near(divisors(batch), mini))}"
    if facts.release == (0, 8) or (facts.is_megatron and facts.release < (0, 9)):
        yield error(message, fix, facts.source(MINI))
    elif facts.release >= (0, 9):
        filled = -(-batch // mini) * mini
        yield warning(f"{message}: verl fills the step up to {filled} prompts with padding", fix, facts.source(MINI))
    else:
        yield warning(f"{message}: the last update of a step has {batch % mini} prompts", fix, facts.source(MINI))


def _share(facts: VerlFacts, samples: int | None) -> int | None:
    """Samples of one data-parallel group; None where they do not divide, which is another rule's."""
    groups = facts.data_parallel
    return samples // groups if samples and groups and samples % groups == 0 else None


def _dealt_samples(facts: VerlFacts) -> int | None:
    """Samples of a mini batch that reach the groups: before 0.8 verl drops what does not divide (RLX105)."""
    samples, groups = facts.mini_samples, facts.data_parallel
    return samples // groups * groups if samples and groups and facts.release < (0, 8) else samples


def _padded_samples(facts: VerlFacts) -> int | None:
    """verl 0.9 fills a step up to whole mini batches."""
    if facts.release < (0, 9) or not facts.samples or not facts.mini_samples or not facts.data_parallel:
        return facts.samples
    multiple = math.lcm(facts.data_parallel, facts.mini_samples)
    return -(-facts.samples // multiple) * multiple


def _has_reference(facts: VerlFacts) -> bool:
    return facts.is_true(f"{ACTOR}.use_kl_loss") or facts.is_true("algorithm.use_kl_in_reward")


def _indivisible(facts: VerlFacts, key: str, micro: int, share: int, of_what: str) -> Flaw:
    fits = near(divisors(share), micro)
    message = f"{facts.named(key)} does not divide the {share} samples that {of_what}"
    return error(message, f"use {one_of(fits)}", facts.source(key))
