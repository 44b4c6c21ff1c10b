"""Batches of verl: their arithmetic, length and sampling, as its workers assert them before or after the start."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlx.backends.verl.key_names import BYPASS
from rlx.backends.verl.rules.facts import ACTOR, BATCH, MODEL, REF, ROLLOUT, VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

MINI, SAMPLES = f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n"
MICRO = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
LOG_MICRO, REF_MICRO = (f"{role}.log_prob_micro_batch_size_per_gpu" for role in (ROLLOUT, REF))
COLD = 0.2
_TEMPERATURE = f"{ROLLOUT}.temperature"
_FILTER = "algorithm.filter_groups"


@rule("RLX103")
def samples_over_devices(facts: VerlFacts) -> Iterator[RuleFinding]:
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
def micro_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    micro, samples, groups = facts.count(MICRO), facts.mini_samples, facts.data_parallel
    if samples and groups and facts.release < (0, 8):
        samples -= samples % groups  # verl drops the remainder of a mini batch (RLX105)
    share = _share(facts, samples)
    # Megatron's workers before 0.8 only cut the mini batch into pieces.
    asserts = facts.release >= (0, 8) or not facts.is_megatron
    if facts.fixed_micro_batches and asserts and micro and share and share % micro:
        yield _indivisible(facts, MICRO, micro, share, "a device has of each mini batch")


@rule("RLX105")
def mini_batch_over_groups(facts: VerlFacts) -> Iterator[RuleFinding]:
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
def mini_batch_in_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    batch, mini = facts.count(BATCH), facts.count(MINI)
    if facts.fixed_micro_batches and not facts.is_nla and batch and mini and mini > batch:
        message = f"{facts.named(MINI)} is larger than {facts.named(BATCH)}"
        yield error(message, f"train.mini_batch_size {one_of(near(divisors(batch), mini))}", facts.source(MINI))


@rule("RLX107")
def log_prob_micro_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    micro, share = facts.count(LOG_MICRO), _share(facts, _padded_samples(facts))
    # In bypass mode the rollout's own log-probabilities are taken, and there is no such pass.
    left_out = facts.is_true(f"{ROLLOUT}.log_prob_use_dynamic_bsz") or facts.is_true(BYPASS)
    if facts.release >= (0, 8) and not left_out and micro and share and share % micro:
        yield _indivisible(facts, LOG_MICRO, micro, share, "a device has of each step")


@rule("RLX108")
def reference_micro_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    micro, share = facts.count(REF_MICRO), _share(facts, _padded_samples(facts))
    dynamic = facts.is_true(f"{REF}.log_prob_use_dynamic_bsz")
    # Where one recipe key feeds both passes, RLX107 reports it.
    counts = facts.release >= (0, 8) and not dynamic and facts.source(REF_MICRO) != facts.source(LOG_MICRO)
    if _has_reference(facts) and counts and micro and share and share % micro:
        yield _indivisible(facts, REF_MICRO, micro, share, "a device has of each step")


@rule("RLX109")
def one_micro_batch_key(facts: VerlFacts) -> Iterator[RuleFinding]:
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
def mini_batches_in_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
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


@rule("RLX101")
def fills_a_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.steps_of_data == 0:
        rows, key = facts.train_rows, "data.train_batch_size"
        few = rows != facts.recipe.data.train_rows
        named = facts.source("data.train_max_samples") if few else "data.train_rows"
        message = f"{named} {rows} do not fill one batch of {facts.whole(key)} prompts"
        yield error(message, f"train.batch_size {rows} or less", facts.source(key))


@rule("RLX102")
def data_lasts(facts: VerlFacts) -> Iterator[RuleFinding]:
    steps, every = facts.count("trainer.total_training_steps"), facts.count("trainer.test_freq")
    last = facts.steps_of_data
    if not steps or not last or last >= steps:
        return
    message = f"the data ends after step {last} of {steps}: verl stops there without a last validation"
    fix = "raise the number of epochs or lower the number of steps"
    ends = f"; or eval.every {one_of(near(divisors(last), every))}" if every else ""
    yield warning(message, fix + ends, "train.steps")


@rule("RLX111")
def dynamic_batch_holds_a_sample(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    limit, longest, cp = facts.count(key), facts.longest, facts.cp
    if not facts.fixed_micro_batches and limit and longest and cp and limit * cp < longest:
        needed = -(-longest // cp)
        message = f"{facts.named(key)} × {cp} sequence-parallel devices is less than the {longest} tokens of a sample"
        # Before 0.8 every sample is padded to its longest; later ones count what it really has.
        report = error if facts.release < (0, 8) else warning
        yield report(message, f"{key} {needed} or more", facts.source(key))


@rule("RLX112")
def groups_to_compare(facts: VerlFacts) -> Iterator[RuleFinding]:
    kind = facts.setting("algorithm.adv_estimator")
    if kind in ("grpo", "rloo") and facts.whole(SAMPLES) == 1:
        message = f"algorithm.kind {kind} with {facts.named(SAMPLES)}: advantages have no baseline"
        yield warning(message, "rollout.n 2 or more", facts.source(SAMPLES))


@rule("RLX113")
def loss_aggregation(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ACTOR}.loss_agg_mode"
    modes = ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
    modes += ["token-sum"] if facts.release >= (0, 9) else []
    value = facts.setting(key)
    if isinstance(value, str) and value not in modes:
        yield error(f"{facts.named(key)}: verl has no such mode", f"use {', '.join(modes)}")


@rule("RLX114")
def validation_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = "data.val_batch_size"
    size = facts.whole(key)
    if size is not None and (size < 0 or (size == 0 and facts.release < (0, 9))):
        yield error(f"{facts.named(key)}: a batch has at least one row", "remove it: the whole set is one batch")


@rule("RLX115")
def padding_and_sequence_parallelism(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{MODEL}.use_remove_padding"
    if not facts.is_megatron and (facts.cp or 1) > 1 and not facts.is_true(key):
        yield error(f"layout.cp {facts.cp} with {facts.named(key)}", f"remove {facts.source(key)}")


@rule("RLX117")
def deprecated_micro_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    if not facts.fixed_micro_batches:
        return
    for key in (MICRO, LOG_MICRO):
        old = key.removesuffix("_per_gpu")
        if facts.release >= (0, 8) and facts.setting(key) is None and facts.setting(old) is not None:
            yield error(f"{facts.named(old)}: verl {facts.settings.version} reads {key} only", f"set {key}", old)
    old, mini = MICRO.removesuffix("_per_gpu"), facts.count(MINI)
    size = facts.count(old)
    if size and mini and mini % size:
        yield error(f"{facts.named(old)} does not divide {facts.named(MINI)}", f"set {MICRO} instead", old)


@rule("RLX119")
def asynchronous_batch(facts: VerlFacts) -> Iterator[RuleFinding]:
    mode, key = "trainer.v1.trainer_mode", "trainer.v1.separate_async.parameter_sync_step"
    batch, mini, updates = facts.count("data.train_batch_size"), facts.count(MINI), facts.count(key)
    if facts.setting(mode) != "separate_async" or not facts.uses_v1 or not (batch and mini and updates):
        return
    if batch != updates * mini:
        message = f"{facts.named(mode)}: {facts.named('data.train_batch_size')} is not {facts.named(key)}"
        fits = f"train.batch_size {updates * mini}"
        exact = f", or train.mini_batch_size {batch // updates}" if batch % updates == 0 else ""
        yield error(f"{message} × {facts.named(MINI)}", fits + exact, facts.source(mode))


@rule("RLX116")
def greedy_training(facts: VerlFacts) -> Iterator[RuleFinding]:
    value = facts.setting(_TEMPERATURE)
    if isinstance(value, int | float) and value <= 0:
        message = f"{facts.named(_TEMPERATURE)}: the samples of a prompt are all the same"
        yield error(message, "rollout.temperature 1.0", facts.source(_TEMPERATURE))


@rule("RLX120")
def cold_sampling(facts: VerlFacts) -> Iterator[RuleFinding]:
    value, top_k = facts.setting(_TEMPERATURE), facts.whole(f"{ROLLOUT}.top_k")
    grouped = facts.setting("algorithm.adv_estimator") in ("grpo", "rloo") and (facts.count(SAMPLES) or 1) > 1
    if grouped and isinstance(value, int | float) and 0 < value <= COLD:
        message = f"{facts.named(_TEMPERATURE)}: the {facts.whole(SAMPLES)} answers to a prompt hardly differ"
        yield warning(message, "rollout.temperature 1.0", facts.source(_TEMPERATURE))
    if grouped and top_k == 1:
        message = f"{facts.named(f'{ROLLOUT}.top_k')}: the {facts.whole(SAMPLES)} answers to a prompt are all the same"
        yield warning(message, "rollout.top_k -1", facts.source(f"{ROLLOUT}.top_k"))


@rule("RLX121")
def filter_metric(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{_FILTER}.metric"
    is_read = facts.is_dapo_recipe or facts.uses_v1
    if facts.filters_groups and is_read and not facts.setting(key):
        metric = "acc" if facts.is_dapo_recipe else "reward"
        yield error(
            f"{facts.named(key)} with {facts.source(f'{_FILTER}.enable')}", f"{key}: {metric}", facts.source(key)
        )


@rule("RLX122")
def ignored_filter(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.filters_groups and not facts.uses_v1 and facts.starts_main_ppo:
        key = facts.source(f"{_FILTER}.enable")
        message = f"{key}: the trainer of verl {facts.settings.version} does not filter"
        yield warning(message, "backend.trainer dapo, or verl 0.9 with trainer.use_v1", key)


def _share(facts: VerlFacts, samples: int | None) -> int | None:
    """Count the samples of one data-parallel group; None where they do not divide, which another rule reports."""
    groups = facts.data_parallel
    return samples // groups if samples and groups and samples % groups == 0 else None


def _padded_samples(facts: VerlFacts) -> int | None:
    """verl 0.9 fills a step up to whole mini batches."""
    if facts.release < (0, 9) or not facts.samples or not facts.mini_samples or not facts.data_parallel:
        return facts.samples
    multiple = math.lcm(facts.data_parallel, facts.mini_samples)
    return -(-facts.samples // multiple) * multiple


def _has_reference(facts: VerlFacts) -> bool:
    return facts.is_true(f"{ACTOR}.use_kl_loss") or facts.is_true("algorithm.use_kl_in_reward")


def _indivisible(facts: VerlFacts, key: str, micro: int, share: int, of_what: str) -> RuleFinding:
    fits = near(divisors(share), micro)
    message = f"{facts.named(key)} does not divide the {share} samples that {of_what}"
    return error(message, f"use {one_of(fits)}", facts.source(key))
