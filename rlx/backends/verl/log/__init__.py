"""Verl's log: how its lines read, what its metrics are called, and what its forks say of noise.

Sources: verl/trainer/ppo/metric_utils.py for the names (`perf/total_num_tokens` counts prompts and answers of a step on
all devices, `perf/throughput` is that per second and device); verl/trainer/ppo/rollout_corr_helper.py for those of the
correction (only 0.6.1 has a veto, only 0.8.0 and later weights of zero); verl/trainer/ppo/v1/replay_buffer.py of 0.9.1
for the groups that its filter drops, recipe/dapo/dapo_ray_trainer.py for the batches that the older one has generated;
verl/trainer/main_ppo.py for what it prints at first; verl/utils/reward_score/__init__.py for the rules by data source.
"""

from __future__ import annotations

from rlx.backends.verl.key_names import CRITIC_SEED_KEYS, SEED_KEYS
from rlx.backends.verl.log.lines import LINES, configured, parse_printed_config, phases
from rlx.backends.verl.log.noise_lines import NEEDLES, noise_faults, read_noise_line
from rlx.backends.verl.log.setting_traces import PRECISION, TRACES, modes
from rlx.evidence.log_grammar import KnownHangs, LogGrammar, Role
from rlx.payload.replayed_graders import BOXED, GSM8K
from rlx.yaml_reader.hydra import read_words

GRAMMAR = LogGrammar(
    title="verl",
    rules="verl 3",
    lines=LINES,
    noise_needles=NEEDLES,
    noise=read_noise_line,
    noise_faults=noise_faults,
    core=("val-core/",),
    validation=("val-core/", "val-aux/", "val/"),
    metrics={
        Role.STEP_SECONDS: ("timing_s/step", "perf/time_per_step"),
        Role.VALIDATION_SECONDS: ("timing_s/testing",),
        Role.SAVE_SECONDS: ("timing_s/save_checkpoint",),
        Role.SYNC_SECONDS: ("timing_s/update_weights",),
        Role.TOKENS: ("perf/total_num_tokens",),
        Role.TOKENS_A_SECOND_AND_DEVICE: ("perf/throughput",),
        Role.SCORE: ("critic/score/mean", "critic/rewards/mean"),
        Role.ENTROPY: ("actor/entropy",),
        Role.ROLLOUT_ENTROPY: ("rollout_corr/rollout_log_ppl",),
        Role.RESPONSE_LENGTH: ("response_length/mean",),
        Role.CLIP_RATIO: ("response_length/clip_ratio",),
        Role.GRAD_NORM: ("actor/grad_norm",),
        Role.LEARNING_RATE: ("actor/lr",),
        Role.POLICY_LOSS: ("actor/pg_loss",),
        Role.PROBABILITY_GAP: ("training/rollout_probs_diff_mean",),
        Role.PROBABILITY_CORRELATION: ("training/rollout_actor_probs_pearson_corr",),
        Role.POLICY_KL: ("actor/ppo_kl",),
        Role.REWARD: ("critic/rewards/mean",),
        Role.HIGHEST_REWARD: ("critic/rewards/max",),
        Role.LOWEST_REWARD: ("critic/rewards/min",),
        Role.HIGHEST_ADVANTAGE: ("critic/advantages/max",),
        Role.LOWEST_ADVANTAGE: ("critic/advantages/min",),
        Role.REJECTED_SAMPLES: ("rollout_corr/rollout_rs_seq_masked_fraction",),
        Role.REJECTED_TOKENS: ("rollout_corr/rollout_rs_masked_fraction",),
        Role.VETOED_SAMPLES: ("rollout_corr/rollout_is_veto_fraction",),
        Role.ZEROED_WEIGHTS: ("rollout_corr/rollout_is_oob_ratio",),
        Role.ABORTED_SAMPLES: ("response/aborted_ratio",),
        Role.FILTERED_GROUPS: ("training/filter_groups/evicted_samples",),
        Role.GENERATED_BATCHES: ("train/num_gen_batches",),
        Role.EFFECTIVE_SAMPLE_SIZE: ("rollout_corr/rollout_is_eff_sample_size",),
        # The trainer logs the loss as 0 where none is taken, the penalty only where one is.
        Role.REFERENCE_KL: ("actor/reward_kl_penalty", "actor/kl_loss"),
        Role.LOGGED_STEP: ("training/global_step",),
        Role.EPOCH: ("training/epoch",),
        Role.STALENESS: ("training/off_policy/trajectory_staleness/mean",),
        Role.DEVICE_MEMORY: ("actor/perf/max_memory_allocated_gb", "perf/max_memory_allocated_gb"),
    },
    not_kl=("rollout_corr/",),
    gap_setting="rollout.calculate_log_probs",
    outputs_setting="trainer.validation_data_dir",
    row_limit_setting="data.train_max_samples",
    row_filter_setting="data.filter_overlong_prompts",
    own_reward=("custom_reward_function.path",),
    graders={
        "openai/gsm8k": GSM8K,
        "lighteval/MATH": BOXED,
        "DigitalLearningGmbH/MATH-lighteval": BOXED,
        "HuggingFaceH4/MATH-500": BOXED,
    },
    scored_by=(
        "reward_model.reward_manager",
        "reward_model.enable",
        "reward.reward_manager.name",
        "reward.reward_model.enable",
    ),
    seed_keys=SEED_KEYS + CRITIC_SEED_KEYS,
    precision=PRECISION,
    hangs=KnownHangs(
        near_end="verl is known to hang one or two steps before the end, where the data ends before the steps do",
        at_end="verl is known to hang in Ray's shutdown after the last validation",
    ),
    phases=phases,
    planned_settings=lambda command, recipe: read_words(command),
    printed_configuration=parse_printed_config,
    configured=configured,
    modes=modes,
    traces=TRACES,
)
