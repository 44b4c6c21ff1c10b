"""Recorded runs made into experiments on other treatments than noise, as they happened or as they never arrived.

`place_treatment` takes the recorded pair and makes its noisy arm one that changes a setting: in its recipe, its
command, the configuration that its engine composed, and the metrics that an honest run of it logs. What is left out of
these is what did not happen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from rlx.model.run_dir import COMPOSED_FILE, PROVENANCE_FILE
from tests.evidence.edits import GAP
from tests.evidence.grid.run_pair import RunDirectory, RunPair, place_pair

Logged = float | Callable[[int], float]
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_OPTIM = f"{_ACTOR}.optim"
_TOKENS, _THROUGHPUT = "perf/total_num_tokens", "perf/throughput"
_HALF: Mapping[str, Logged] = {_TOKENS: math.nan, _THROUGHPUT: math.nan}
"""Half as many answers: half of what the recorded run logs."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """A recipe key and its value, the engine's keys that follow from it, and what a run of it logs.

    `shown`: the metrics that show it; none where nothing but the configuration or a record of the start does. `file`:
    the path in the recipe of a file or folder whose digest the run records at its start. `ids`: what is said of an
    honest run of it.
    """

    key: str
    value: object
    settings: Mapping[str, object]
    logged: Mapping[str, Logged] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    file: str = ""
    ids: tuple[str, ...] = ()


def _override(key: str, value: object, **more: Any) -> Treatment:
    return Treatment(f"overrides.{key}", value, {key: value}, **more)


TREATMENTS: Mapping[str, Treatment] = {
    "learning rate": Treatment("train.lr", 4e-4, {f"{_OPTIM}.lr": 4e-4}, {"actor/lr": 4e-4}, shown=("actor/lr",)),
    "schedule": _override(
        f"{_OPTIM}.lr_scheduler_type",
        "cosine",
        logged={"actor/lr": lambda step: 2e-4 * (0.5 + 0.5 * math.cos(math.pi * step / 20))},
        shown=("actor/lr",),
    ),
    "warm-up": _override(
        f"{_OPTIM}.lr_warmup_steps",
        5,
        logged={"actor/lr": lambda step: 2e-4 * min(1.0, step / 5)},
        shown=("actor/lr",),
    ),
    "KL in the loss": Treatment(
        "algorithm.kl",
        {"place": "loss", "coef": 0.05, "estimator": "low_var_kl"},
        {f"{_ACTOR}.use_kl_loss": True, f"{_ACTOR}.kl_loss_coef": 0.05, f"{_ACTOR}.kl_loss_type": "low_var_kl"},
        {"actor/kl_loss": lambda step: 1e-4 * step, "actor/kl_coef": 0.05},
        shown=("actor/kl_loss", "actor/kl_coef"),
    ),
    "KL in the reward": Treatment(
        "algorithm.kl",
        {"place": "reward", "coef": 0.01, "estimator": "kl"},
        {"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.kl_coef": 0.01, "algorithm.kl_penalty": "kl"},
        {"actor/reward_kl_penalty": lambda step: 1e-4 * step, "actor/reward_kl_penalty_coeff": 0.01},
        shown=("actor/reward_kl_penalty", "actor/reward_kl_penalty_coeff"),
    ),
    "entropy coefficient": _override(f"{_ACTOR}.entropy_coeff", 0.01),
    "clip range": _override(f"{_ACTOR}.clip_ratio_high", 0.28),
    "loss aggregation": _override(f"{_ACTOR}.loss_agg_mode", "seq-mean-token-sum"),
    "advantage estimator": Treatment("algorithm.kind", "rloo", {"algorithm.adv_estimator": "rloo"}),
    "batch size": Treatment(
        "train.batch_size",
        10,
        {"data.train_batch_size": 10, f"{_ACTOR}.ppo_mini_batch_size": 10},
        _HALF,
        shown=(_TOKENS,),
    ),
    "answers to a prompt": Treatment(
        "rollout.n",
        4,
        {f"{_ROLLOUT}.n": 4},
        {**_HALF, "critic/advantages/max": 1.4},
        shown=(_TOKENS, "critic/advantages/max"),
    ),
    "epochs": Treatment(
        "train.epochs",
        2,
        {"trainer.total_epochs": 2},
        {"training/epoch": lambda step: (step - 1) // 10},
        shown=("training/epoch",),
    ),
    "reward": Treatment(
        "reward.kwargs", {"bonus": 0.5}, {"reward.custom_reward_function.reward_kwargs": {"bonus": 0.5}}
    ),
    "training data": Treatment(
        "data.train", "/data/other.parquet", {"data.train_files": "/data/other.parquet"}, file="/data/other.parquet"
    ),
    "model": Treatment(
        "model.path", "/models/other", {"actor_rollout_ref.model.path": "/models/other"}, file="/models/other"
    ),
    "temperature": Treatment("rollout.temperature", 0.6, {f"{_ROLLOUT}.temperature": 0.6}),
    "longest answer": Treatment(
        "data.max_response_tokens",
        4,
        {"data.max_response_length": 4},
        {"response_length/max": 4.0},
        shown=("response_length/max",),
    ),
    "filtered groups": _override("algorithm.filter_groups.enable", True),
    "LoRA rank": _override("actor_rollout_ref.model.lora_rank", 8),
    "dtype of the rollout": _override(f"{_ROLLOUT}.dtype", "bfloat16", ids=("RLX723",)),
    "weight decay": _override(f"{_OPTIM}.weight_decay", 0.1),
    "chat template": _override("data.apply_chat_template_kwargs.enable_thinking", False),
    "tokenizer": _override("actor_rollout_ref.model.tokenizer_path", "/models/other"),
}


def place_treatment(treatment: Treatment, *, composed: bool = True, logged: bool = True) -> RunPair:
    """Place the pair below $RLX_ROOT. Not `composed`, not `logged`: the change did not arrive there.

    Not `logged`, a file that the run recorded is that of the control, at the path that was set.
    """
    pair = place_pair("probed")
    for run in (pair.baseline, pair.aqn):
        _without_noise(run)
    _treat(pair, treatment)
    if composed:
        for key, value in treatment.settings.items():
            _compose(pair.aqn, key, value)
    elif treatment.file:
        # The recorded path has an interpolation, which says nothing.
        for key in treatment.settings:
            _compose(pair.aqn, key, "/of/the/control")
    if logged:
        for metric, value in treatment.logged.items():
            pair.aqn.set_in_both(metric, {step: _value(pair, metric, value, step) for step in range(1, 21)})
    if treatment.file:
        _record(pair.aqn, treatment, other=logged)
    pair.write()
    return pair


def _record(run: RunDirectory, treatment: Treatment, *, other: bool) -> None:
    file = run.run_dir / "attempts/1" / PROVENANCE_FILE
    found = json.loads(file.read_text(encoding="utf-8"))
    if treatment.key == "model.path":
        entry = found["model"] = {**found["model"], "path": treatment.file}
    else:
        train = next(path for path in found["data"] if path.endswith("train.parquet"))
        entry = found["data"][treatment.file] = found["data"].pop(train)
    if other:
        entry.update({key: value[::-1] for key, value in entry.items() if key.startswith("sha256")})
    file.write_text(json.dumps(found), encoding="utf-8")


def _without_noise(run: RunDirectory) -> None:
    run.expectations["watch"] = run.expectations["noise"] = None
    run.events = []
    run.plan["files"] = [file for file in run.plan["files"] if "aqn" not in file["path"]]
    lines = run.log.splitlines(keepends=True)
    run.log = "".join(line for line in lines if "noise" not in line.lower() or " step:" in line)


def _treat(pair: RunPair, treatment: Treatment) -> None:
    run, plan = pair.aqn, pair.aqn.plan
    plan["recipe"]["aqn"], plan["treatment"] = None, [treatment.key]
    section, _, name = treatment.key.partition(".")
    plan["recipe"][section][name] = treatment.value
    plan["command"] += [f"++{key}={_word(value)}" for key, value in treatment.settings.items()]
    # The gap of a run without noise, and not the control's own to the last digit.
    run.set_in_both(GAP, {step: value * 1.07 for step, value in pair.baseline.gaps().items() if step})


def _word(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_word(each)}' for key, each in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compose(run: RunDirectory, key: str, value: object) -> None:
    file = run.run_dir / "attempts/1" / COMPOSED_FILE
    tree = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    section = tree
    *path, name = key.split(".")
    for each in path:
        section = section.setdefault(each, {})
    # YAML 1.1 takes a bare n for false.
    section[False if name == "n" and False in section else name] = value
    text = yaml.dump(tree, Dumper=yaml.CSafeDumper).replace("false: 4\n", "n: 4\n")
    file.write_text(text, encoding="utf-8")


def _value(pair: RunPair, metric: str, value: Logged, step: int) -> float:
    if metric in _HALF:
        return pair.aqn.value(metric, step) / 2
    return value(step) if callable(value) else value
