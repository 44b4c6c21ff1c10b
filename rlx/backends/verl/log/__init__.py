"""Verl's log: how its lines read, what its metrics are called, and what its forks print about noise.

Sources: verl/trainer/ppo/metric_utils.py for the names (`perf/total_num_tokens` counts prompts and answers of a step on
all devices, `perf/throughput` is that per second and device); verl/trainer/ppo/rollout_corr_helper.py for those of the
correction (only 0.6.1 has a veto, only 0.8.0 and later weights of zero); verl/trainer/ppo/v1/replay_buffer.py of 0.9.1
for the groups that its filter drops, recipe/dapo/dapo_ray_trainer.py for the batches that the older one has generated;
verl/trainer/main_ppo.py for what it prints at first; verl/utils/reward_score/__init__.py for the rules by data source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from rlx.backends.verl.key_names import CRITIC_SEED_KEYS, SEED_KEYS
from rlx.backends.verl.log.fork_noise import NEEDLES, noise_faults, read_noise_line
from rlx.backends.verl.log.setting_traces import PRECISION, TRACES, modes
from rlx.evidence.log_grammar import (
    Configured,
    DataLength,
    DataRows,
    KnownHangs,
    LineForm,
    LineSays,
    LogGrammar,
    Resumed,
    Role,
    StepMetrics,
    TotalSteps,
    read_pairs,
)
from rlx.evidence.run_evidence import FaultKind, LoggedFault, Progress
from rlx.payload.replayed_graders import BOXED, GSM8K
from rlx.yaml_reader.hydra import read_words

# No number has more digits. What stands before is checked apart: a look-behind would keep re from searching fast.
_STEP_HEAD = re.compile(r"step:\s?(\d{1,12})\s+-\s")
_PART_OF_A_NAME = re.compile(r"[\w/.-]")
# The DAPO recipe's trainer saves once more where its data ended, and logs that under the step that it did not take.
_ONLY_SAVED = {"timing/save_checkpoint"}
# What follows a metrics line without an end of line: a bar, or the output of another process.
_GLUED = re.compile(r"Training Progress:|\(\w+ pid=\d")
_BAR_STATE = re.compile(r"Training Progress:[^|\n]{0,40}\|[^|\n]{0,300}\|\s*(\d{1,12})/(\d{1,12}) \[")
_TOTAL_STEPS = re.compile(r"Total training steps: (\d{1,12})")
_DATASET_ROWS = re.compile(r"train dataset size: (\d{1,12}), val dataset size: (\d{1,12})")
_DATASET_LENGTH = re.compile(r"(filter )?dataset len: (\d{1,12})")
_RESUMED_AT = re.compile(r"[Ss]etting global step to (\d{1,12})")
_REWARD_FAILED = re.compile(
    r"(?:[Ee]rror|[Ff]ailed|[Ee]xception)\b.{0,20}\b[Rr]eward computation\b|"
    r"\b[Rr]eward computation (?:failed|timed out|error)|[Ss]coring\b.{0,20}Setting all as 0|"
    r"Error in \w{1,40} compute_score: "
)
_NO_OPTIMIZER = re.compile(
    r"[Oo]ptimizer state(?: dict)?(?: is| was)? ?(?:missing|skipped|not (?:found|loaded|restored))\b|"
    r"\b(?:[Nn]o|[Mm]issing) optimizer state\b"
)
_FOLDED = re.compile(r"\[repeated (\d{1,9})x across cluster\]")
_PROCESS = re.compile(r"^\(\w+ pid=\d+[^)]{0,99}\) ")
_QUOTED = 160
_MOST_LINES = 20_000
_SPEAKER = re.compile(r"\(\w+ (?:pid=\d+(?:, ip=[^)\s]+)?)\) ?")
_QUOTED_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_BEGIN = "{'"
# Each line of it begins with a key, a value or a bracket. A warning begins with a path, a word or a date.
_LITERAL = re.compile(r"""\s*(?:[\[\](){}'":,]|-?\d[\d.e+-]*\s*[\]}),]|(?:None|True|False)\b|$)""")
_NOTHING: Mapping[str, Any] = {}
_SECTIONS = ("data", "actor_rollout_ref", "algorithm", "trainer")
_TRAINING = (
    ("gen", "rollout"),
    ("gen_max", "rollout"),
    ("reward", "reward"),
    ("old_log_prob", "log-prob"),
    ("ref", "reference"),
    ("values", "critic values"),
    ("adv", "advantages"),
    ("update_critic", "critic update"),
    ("update_actor", "actor update"),
)
_AFTER = (("update_weights", "weight sync"), ("testing", "validation"))
_SAVED = "save_checkpoint"
# A trainer that generates several times a step, or elsewhere meanwhile, has no such order.
_BATCHES, _SWITCH = "train/num_gen_batches", "timing_s/switch_to_trainer"


def read_step_lines(line: str) -> Iterator[StepMetrics]:
    """Read the metrics of each `step:N - k:v - …` in a line: several, where lines were joined."""
    # `timing_s/step:87 - ` is a metric, not a head.
    heads = [
        head for head in _STEP_HEAD.finditer(line) if not _PART_OF_A_NAME.match(line[head.start() - 1 : head.start()])
    ]
    ends = [*(head.start() for head in heads), len(line)][1:]
    for head, end in zip(heads, ends, strict=True):
        body = _GLUED.split(line[head.end() : end], maxsplit=1)[0]
        values = read_pairs(body, " - ")
        if values and values.keys() != _ONLY_SAVED:
            yield StepMetrics(int(head[1]), values)


def _read_bar(line: str) -> Iterator[Progress]:
    return (Progress(int(match[1]), int(match[2])) for match in _BAR_STATE.finditer(line))


def _read_totals(line: str) -> Iterator[LineSays]:
    """Read the total steps, the rows of the data sets in two wordings, and a loaded checkpoint."""
    if match := _TOTAL_STEPS.search(line):
        yield TotalSteps(int(match[1]))
    if match := _DATASET_ROWS.search(line):
        yield DataRows(int(match[1]), int(match[2]))
    if match := _DATASET_LENGTH.search(line):
        yield DataLength(int(match[2]), bool(match[1]))
    if match := _RESUMED_AT.search(line):
        yield Resumed(int(match[1]))


def _read_faults(line: str) -> Iterator[LoggedFault]:
    """Read what failed while the training went on. Ray prints one line in place of several, and adds their number."""
    for kind, pattern in ((FaultKind.REWARD, _REWARD_FAILED), (FaultKind.OPTIMIZER, _NO_OPTIMIZER)):
        if pattern.search(line):
            folded = _FOLDED.search(line)
            yield LoggedFault(kind, int(folded[1]) if folded else 1, _PROCESS.sub("", line).strip()[:_QUOTED])


def parse_printed_config(lines: Iterable[str]) -> Mapping[str, Any]:
    """Read the first dictionary with an actor in it that one process prints, in lines without colours."""
    lines = iter(lines)
    for line in lines:
        speaker = _speaker(line)
        body = line[len(speaker) :]
        if body.startswith(_BEGIN) and "actor" in body:
            rest = (each[len(speaker) :] for each in lines if _speaker(each) == speaker)
            printed = [body, *islice(rest, _MOST_LINES)]
            return _read(_until_closed(printed)) or _read(_until_closed(filter(_LITERAL.match, printed)))
    return {}


def _speaker(line: str) -> str:
    match = _SPEAKER.match(line)
    return match[0] if match else ""


def _until_closed(body: Iterable[str]) -> list[str]:
    """Keep the lines of one dictionary. Ray may break a line in two and drop leading blanks: only brackets count."""
    kept: list[str] = []
    depth = 0
    for line in body:
        kept.append(line)
        bare = _QUOTED_TEXT.sub("", line)
        depth += sum(map(bare.count, "{[(")) - sum(map(bare.count, "}])"))
        if depth <= 0:
            break
    return kept


def _read(body: list[str]) -> Mapping[str, Any]:
    import ast

    try:
        tree = ast.literal_eval("\n".join(body))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return {}
    return tree if isinstance(tree, dict) else {}


def configured(config: Mapping[str, Any]) -> Configured | None:
    """Read what the run was configured to do; None for a configuration that is not verl's. Odd values are ignored."""
    trainer = _section(config, "trainer")
    if type(trainer.get("test_freq")) is not int or trainer.get("val_only") is True:
        return None
    rollout = _section(config, "actor_rollout_ref", "rollout")
    return Configured(
        total_steps=_count(trainer, "total_training_steps"),
        validates_every=max(trainer["test_freq"], 0),
        # verl validates before the training by default.
        validates_first=trainer.get("val_before_train", True) is True,
        validation_samples=_count(_section(rollout, "val_kwargs"), "n") or 1,
        reports_probability_gap=rollout.get("calculate_log_probs") is True,
        sigmas=_sigmas(_section(trainer, "noise_injection")),
        is_whole=all(isinstance(config.get(section), dict) for section in _SECTIONS),
    )


def _sigmas(noise: Mapping[str, Any]) -> tuple[float, float, int] | None:
    first, last, stages = _number(noise, "sigma_start"), _number(noise, "sigma_end"), _count(noise, "num_stages")
    if noise.get("enabled") is not True or first is None or last is None or stages is None:
        return None
    return first, last, stages


def _section(tree: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        below = tree.get(key)
        tree = below if isinstance(below, dict) else _NOTHING
    return tree


def _count(tree: Mapping[str, Any], key: str) -> int | None:
    value = tree.get(key)
    return value if type(value) is int and value > 0 else None


def _number(tree: Mapping[str, Any], key: str) -> float | None:
    value = tree.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e6 else None


def phases(values: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    """Return the phases in order, with seconds; "" for what comes after the updates of a step with a checkpoint.

    That is written before or after the new weights and the validation, depending on the version.
    """
    if values.get(_BATCHES, 1) > 1 or _SWITCH in values or not _seconds(values, "gen"):
        return ()
    before = [(phase, _seconds(values, key)) for key, phase in _TRAINING]
    after = [(phase, _seconds(values, key)) for key, phase in _AFTER]
    if saving := _seconds(values, _SAVED):
        after = [("", saving + sum(seconds for _, seconds in after))]
    return [(phase, seconds) for phase, seconds in (*before, *after) if seconds]


def _seconds(values: Mapping[str, float], key: str) -> float:
    seconds = values.get(f"timing_s/{key}", 0.0)
    return seconds if 0 < seconds < 1e7 else 0.0


LINES = (
    LineForm((b"step:",), read_step_lines),
    LineForm((b"Training Progress: ",), _read_bar),
    LineForm((b"Total training steps: ", b"dataset ", b"etting global step to "), _read_totals),
    LineForm((b"eward computation", b"Setting all as 0", b"compute_score: ", b"ptimizer state"), _read_faults),
)
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
