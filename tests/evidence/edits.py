"""Edits that turn the recorded healthy run into a broken one: each changes what that fault changes, no more."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import CASES

GAP = "training/rollout_probs_diff_mean"
REJECTED, REJECTED_TOKENS, WORTH = (
    f"rollout_corr/rollout_{name}" for name in ("rs_seq_masked_fraction", "rs_masked_fraction", "is_eff_sample_size")
)
GRADIENT, LOSS = "actor/grad_norm", "actor/pg_loss"
REJECTION = {"weights": "token 2.0", "rejection": "seq_mean_k1 0.999_1.001", "bypass": False}


class Recorded:
    """A copy of a recorded attempt that edits may change: metrics and events as objects, the log as text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = (folder / "log").read_bytes().decode()
        self.metrics = _documents(folder / "metrics.jsonl")
        self.events = [event for path in sorted((folder / "events").glob("*.jsonl")) for event in _documents(path)]
        self.expectations: dict[str, Any] = json.loads((folder / "expectations.json").read_text(encoding="utf-8"))

    def write(self) -> None:
        (self.folder / "log").write_bytes(self.log.encode())
        _write(self.folder / "metrics.jsonl", self.metrics)
        for path in (self.folder / "events").glob("*.jsonl"):
            path.unlink()
        (self.folder / "events").mkdir(exist_ok=True)
        for number, process in enumerate(self.processes(), start=1):
            own = [event for event in self.events if event.get("process") == process]
            _write(self.folder / "events" / f"aqn-host-{number}.jsonl", own)
        (self.folder / "expectations.json").write_text(json.dumps(self.expectations), encoding="utf-8")

    def noisy(self, **process: int) -> list[dict[str, Any]]:
        """The events with noise; those of a process: `replica=1`."""
        return [
            event
            for event in self.events
            if event.get("sigma", 0) > 0 and process.items() <= event.get("process", {}).items()
        ]

    def processes(self) -> list[Any]:
        """Those that wrote events; None for records that do not name theirs."""
        processes: list[Any] = []
        for event in self.events:
            if (process := event.get("process")) not in processes:
                processes.append(process)
        return processes

    def told(self) -> list[dict[str, Any]]:
        """The settings records."""
        return [event for event in self.events if event["kind"] == "settings"]

    @property
    def promise(self) -> dict[str, Any]:
        """Of the noise, or of its absence."""
        noise = self.expectations["noise"]
        promise: dict[str, Any] = noise["promise"] if noise else self.expectations["watch"]
        return promise

    def forget(self, step: int, wanted: Callable[[str], bool]) -> None:
        """Remove metrics of a step from both files; the whole step where none is left."""
        lines = self.log.splitlines(keepends=True)
        self.log = "".join(_without(line, wanted) if f" step:{step} - " in line else line for line in lines)
        for line in self.metrics:
            if line["step"] == step:
                line["data"] = {key: value for key, value in line["data"].items() if not wanted(key)}

    def put(self, key: str, values: dict[int, float]) -> None:
        """Set a metric at some steps in the metrics file, and let the log say nothing of it."""
        for line in self.metrics:
            if (step := line["step"]) in values:
                self.forget(step, lambda name: name == key)
                line["data"][key] = values[step]

    def end_after(self, step: int) -> None:
        """Cut everything that happened after the metrics line of a step."""
        lines = self.log.splitlines(keepends=True)
        last = next(index for index, line in enumerate(lines) if f" step:{step} - " in line)
        self.log = "".join(lines[: last + 1])
        self.metrics = [line for line in self.metrics if line["step"] <= step]
        self.events = [event for event in self.events if event.get("step", 0) <= step]


def zero_layers(run: Recorded) -> None:
    run.log = re.sub(r"Applied noise to \d+", "Applied noise to 0", run.log)
    for event in run.noisy():
        event.update(layers=0, elements=0, changed=0, effective_std=0.0)


def constant_sigma(run: Recorded) -> None:
    for event in run.noisy():
        event.update(sigma=0.05, effective_std=event["effective_std"] * 0.05 / event["sigma"])


def no_events(run: Recorded) -> None:
    run.log = re.sub(r".*\[AQN\].*\n", "", run.log)
    run.events = []


def announced_only(run: Recorded) -> None:
    no_events(run)
    run.log += "[AQN] Noise injection enabled: 4 stages, total_steps=20, targets=AUTO\n"
    run.log += "[AQN] Applying noise injection: step=12/20, sigma_id=1, sigma=0.010772\n"


def console_lines_only(run: Recorded) -> None:
    run.events = []


def noise_left_in_validation(run: Recorded) -> None:
    run.events = [event for event in run.events if event["phase"] != "validation"]


def noise_added_for_validation(run: Recorded) -> None:
    noise = {event["step"]: event for event in run.noisy()}
    run.events = [
        {**noise[event["step"]], "phase": "validation"}
        if event["phase"] == "validation" and event["step"] in noise
        else event
        for event in run.events
    ]


def events_of_the_aqn_arm(run: Recorded) -> None:
    """For the baseline: noise is recorded in an arm that was promised none."""
    run.events = Recorded(CASES / "logs" / "tiny-aqn").events


def claims_of_the_aqn_arm(run: Recorded) -> None:
    """For the baseline: noise is planned and recorded, but the model that generated never had any."""
    aqn = Recorded(CASES / "logs" / "tiny-aqn")
    run.events, run.expectations = aqn.events, aqn.expectations


def noise_in_first_stage(run: Recorded) -> None:
    first = run.noisy()[0]
    run.events = [{**first, "step": 2} if event["step"] == 2 else event for event in run.events]


def noise_missing_at_nine(run: Recorded) -> None:
    run.events = [event for event in run.events if (event["step"], event["phase"]) != (9, "rollout")]


def second_replica_stops(run: Recorded) -> None:
    run.events += [{**event, "replica": 1} for event in run.events if event["step"] <= 10]


def no_effect(run: Recorded) -> None:
    for event in run.noisy():
        event.update(changed=0, effective_std=0.0)


def dead_last_stage(run: Recorded) -> None:
    for event in run.noisy():
        if event["step"] >= 17:
            event.update(changed=0, effective_std=0.0)


def gap_not_logged(run: Recorded) -> None:
    for step in range(1, 21):
        run.forget(step, lambda key: key == GAP)


def gap_not_larger(run: Recorded) -> None:
    gap_not_logged(run)
    for line in run.metrics:
        if line["step"] > 0:
            line["data"][GAP] = 1.3e-7 + 1e-8 * math.sin(line["step"])


def gap_of_bfloat16(run: Recorded) -> None:
    """The recorded noise above a floor of 4e-3 that grows by a fifth over the run."""
    _set_gaps(run, {step: math.hypot(_floor(step), gap) for step, gap in _gaps(run).items()})


def gap_of_bfloat16_at_sigma_001(run: Recorded) -> None:
    """Noise of a fifth of the recorded strength, which does not show above such a floor."""
    for event in run.noisy():
        event.update(sigma=event["sigma"] / 5, effective_std=event["effective_std"] / 5)
    noise = run.expectations["noise"]
    noise["sigmas"] = [sigma / 5 for sigma in noise["sigmas"]]
    _set_gaps(run, {step: math.hypot(_floor(step), gap / 5) for step, gap in _gaps(run).items()})


def gap_of_bfloat16_without_noise(run: Recorded) -> None:
    _set_gaps(run, {step: _floor(step) for step in _gaps(run)})


def gap_raised_at_five(run: Recorded) -> None:
    """The gap rises when the noise is due, for another reason: it does not follow sigma."""
    _set_gaps(run, {step: 1e-3 * (6 + math.sin(3 * step)) if step > 4 else gap for step, gap in _gaps(run).items()})


def gap_drifts(run: Recorded) -> None:
    _set_gaps(run, {step: 1e-7 + 4e-4 * step for step in _gaps(run)})


def gap_falls(run: Recorded) -> None:
    _set_gaps(run, {step: 1e-2 / step for step in _gaps(run)})


def gap_of_one_clean_step_is_odd(run: Recorded) -> None:
    _set_gaps(run, _gaps(run) | {2: 0.05})


def gap_not_larger_but_at_two_steps(run: Recorded) -> None:
    _set_gaps(run, {step: 1.3e-7 + 1e-8 * math.sin(step) for step in _gaps(run)} | {2: 0.01, 6: 0.05})


def noise_one_step_late(run: Recorded) -> None:
    gaps = _gaps(run)
    _set_gaps(run, {step: gaps[max(1, step - 1)] for step in gaps})


def noise_one_step_early(run: Recorded) -> None:
    gaps = _gaps(run)
    _set_gaps(run, {step: gaps[min(20, step + 1)] for step in gaps})


def gap_of_one_border_is_odd(run: Recorded) -> None:
    gaps = _gaps(run)
    _set_gaps(run, gaps | {9: gaps[8]})


def cut_after_fourteen(run: Recorded) -> None:
    run.end_after(14)


def cut_after_three(run: Recorded) -> None:
    run.end_after(3)


def cut_after_six(run: Recorded) -> None:
    run.end_after(6)


def wrong_sigma_so_far(run: Recorded) -> None:
    run.end_after(11)
    constant_sigma(run)


def last_step_unvalidated(run: Recorded) -> None:
    run.forget(20, lambda key: key.startswith("val"))


def tenth_step_unvalidated(run: Recorded) -> None:
    run.forget(10, lambda key: key.startswith("val"))


def step_seven_lost(run: Recorded) -> None:
    run.forget(7, lambda _: True)
    run.metrics = [line for line in run.metrics if line["step"] != 7]


def files_disagree(run: Recorded) -> None:
    line = next(line for line in run.metrics if line["step"] == 15)
    key = next(key for key in line["data"] if key.startswith("val-core"))
    line["data"][key] -= 0.1


def other_validation_set(run: Recorded) -> None:
    run.expectations["validation_items"] = 99


def other_total(run: Recorded) -> None:
    run.expectations["total_steps"] = 21


def other_metric(run: Recorded) -> None:
    run.expectations["metric"] = "val-core/openai/gsm8k/acc/mean@1"


def odd_accuracy(run: Recorded) -> None:
    line = next(line for line in run.metrics if line["step"] == 20)
    key = next(key for key in line["data"] if key.startswith("val-core"))
    old, line["data"][key] = line["data"][key], 0.6543210
    head, mark, last = run.log.partition(" step:20 - ")
    run.log = head + mark + last.replace(f"{key}:np.float64({old})", f"{key}:np.float64(0.6543210)")


def most_noise_rounded_away(run: Recorded) -> None:
    """From step 9 on as in bfloat16: a few elements move by a whole bit."""
    for event in run.noisy():
        if event["step"] >= 9:
            event.update(changed=3, effective_std=event["sigma"] / 4)


def last_stage_mostly_rounded_away(run: Recorded) -> None:
    for event in run.noisy():
        if event["step"] >= 17:
            event.update(changed=3, effective_std=event["sigma"] / 4)


def fewer_layers_at_twelve(run: Recorded) -> None:
    for event in run.noisy():
        if event["step"] == 12:
            event.update(layers=2)


def gap_stays_while_sigma_falls(run: Recorded) -> None:
    gap_not_logged(run)
    for line in run.metrics:
        step = line["step"]
        if step > 0:
            line["data"][GAP] = 1.3e-7 + 1e-8 * math.sin(step) + (1e-3 * math.sqrt(step - 4) if step > 4 else 0.0)


def two_runs_in_one_log(run: Recorded) -> None:
    first = Recorded(run.folder)
    first.end_after(14)
    run.log, run.metrics = first.log + run.log, first.metrics + run.metrics


def log_alone(run: Recorded) -> None:
    """The log of a run that is over, and no metrics file."""
    run.metrics = []
    (run.folder / "state").mkdir()
    (run.folder / "state" / "exit").write_text("0", encoding="utf-8")


def log_ends_in_a_line(run: Recorded) -> None:
    log_alone(run)
    run.log = run.log[: run.log.index(" step:20 - ") + 400]


def log_with_a_hole(run: Recorded) -> None:
    start = run.log.index("Training Progress", run.log.index(" step:8 - "))
    run.log = run.log[:start] + "\0" * 4096 + run.log[start:]


def log_begins_at_seven(run: Recorded) -> None:
    log_alone(run)
    run.log = run.log[run.log.index("\n", run.log.index(" step:6 - ")) + 1 :]


def resumed_after_six(run: Recorded) -> None:
    log_begins_at_seven(run)
    run.log = "Setting global step to 6\n" + run.log


def _rejected_by(run: Recorded, share: Callable[[int], float], tokens: Callable[[int], float] | None = None) -> None:
    """A run whose plan promises rejection, and that logs what it took at each step."""
    run.expectations["correction"] = REJECTION
    run.put(REJECTED, {step: share(step) for step in range(1, 21)})
    run.put(REJECTED_TOKENS, {step: (tokens or share)(step) for step in range(1, 21)})


def _measured_share(step: int) -> float:
    """The share that verl's own threshold of 0.1 % took on the tiny recipe, by stage."""
    return (0.0, 0.9, 0.66, 0.1, 0.0)[(step - 1) // 4]


def rejection_takes_the_noise(run: Recorded) -> None:
    _rejected_by(run, _measured_share)


def rejection_takes_the_noise_though_allowed(run: Recorded) -> None:
    rejection_takes_the_noise(run)
    run.expectations["noise"]["min_trained_share"] = 0.05


def rejection_by_overrides_unplanned(run: Recorded) -> None:
    """As a plan of before this promise: what the log shows counts all the same."""
    rejection_takes_the_noise(run)
    del run.expectations["correction"]


def rejection_takes_equally(run: Recorded) -> None:
    _rejected_by(run, lambda step: 0.6 + 0.01 * (step % 3))


def rejection_takes_a_little(run: Recorded) -> None:
    _rejected_by(run, lambda step: 0.02 if step < 5 else 0.15)


def rejection_takes_much_at_some_steps(run: Recorded) -> None:
    _rejected_by(run, lambda step: 0.5 if step in (5, 6, 8) else 0.01)


def rejection_of_single_tokens(run: Recorded) -> None:
    """Nearly every answer loses some token, and keeps the others."""
    _rejected_by(run, lambda step: 0.9 if step > 4 else 0.0, lambda step: 0.04 if step > 4 else 0.0)


def rejection_takes_all(run: Recorded) -> None:
    _rejected_by(run, lambda step: 0.997 if step > 4 else 0.0)


def rejection_leaves_little(run: Recorded) -> None:
    _rejected_by(run, lambda step: 0.985 if step > 4 else 0.0)


def length_limit_beside_a_small_rejection(run: Recorded) -> None:
    """Most answers never end, at noisy steps above all; the correction itself takes little."""
    rejection_takes_a_little(run)
    _at_the_limit(run)


def length_limit_beside_a_large_rejection(run: Recorded) -> None:
    rejection_takes_the_noise(run)
    _at_the_limit(run)


def _at_the_limit(run: Recorded) -> None:
    run.put("response_length/clip_ratio", {step: 0.1 if step < 5 else 0.7 for step in range(1, 21)})
    run.put("response/aborted_ratio", {step: 0.125 for step in range(1, 21)})


def groups_dropped_beside_a_small_rejection(run: Recorded) -> None:
    """The filter has three batches generated at each noisy step, and does not log a zero at the others."""
    rejection_takes_a_little(run)
    _dropped(run)


def groups_dropped_beside_a_rejection_of_all(run: Recorded) -> None:
    rejection_takes_all(run)
    _dropped(run)


def _dropped(run: Recorded) -> None:
    run.put("training/filter_groups/evicted_samples", {step: 16 for step in range(5, 21, 2)})
    run.put("train/num_gen_batches", {step: 1 if step < 5 else 3 for step in range(1, 21)})
    for key in ("critic/advantages/max", "critic/advantages/min"):
        run.put(key, {7: 0.0, 8: 0.0})


def length_limit_beside_a_rejection_without_clean_steps(run: Recorded) -> None:
    rejection_without_clean_steps(run)
    _at_the_limit(run)


def rejection_not_logged(run: Recorded) -> None:
    run.expectations["correction"] = REJECTION


def rejection_without_clean_steps(run: Recorded) -> None:
    rejection_takes_the_noise(run)
    for step in range(1, 5):
        run.forget(step, lambda key: key in (REJECTED, REJECTED_TOKENS))


def weights_only(run: Recorded) -> None:
    run.expectations["correction"] = {**REJECTION, "rejection": ""}
    run.put(WORTH, {step: 1.0 if step < 5 else 0.31 for step in range(1, 21)})


def bypassed(run: Recorded) -> None:
    """The gap is not logged, and what stands in for it has a sign."""
    gap_not_logged(run)
    run.expectations |= {"reports_probability_gap": False, "witness": "policy_kl"}
    run.expectations["correction"] = {"weights": "", "rejection": "", "bypass": True}
    sigmas = run.expectations["noise"]["sigmas"]
    run.put("actor/ppo_kl", {s: (-1) ** s * (1e-8 * (1 + s % 3) + 0.07 * sigmas[s - 1]) for s in range(1, 21)})


def bypassed_without_effect(run: Recorded) -> None:
    bypassed(run)
    run.put("actor/ppo_kl", {step: (-1) ** step * 1e-8 * (1 + step % 3) for step in range(1, 21)})


def bypassed_and_silent(run: Recorded) -> None:
    bypassed(run)
    for step in range(1, 21):
        run.forget(step, lambda key: key == "actor/ppo_kl")


def loss_lost_from_nine_on(run: Recorded) -> None:
    run.put(LOSS, dict.fromkeys(range(9, 21), math.nan))


def gradient_infinite_at_the_end(run: Recorded) -> None:
    run.put(GRADIENT, {20: math.inf})


def gradient_infinite_once(run: Recorded) -> None:
    run.put(GRADIENT, {9: math.inf})


def gradient_infinite_twice(run: Recorded) -> None:
    run.put(GRADIENT, {9: math.inf, 14: math.nan})


def validation_collapses_after_a_lost_step(run: Recorded) -> None:
    loss_lost_once(run)
    for step in (15, 20):
        line = next(line for line in run.metrics if line["step"] == step)
        (key,) = [key for key in line["data"] if key.startswith("val-core")]
        run.put(key, {step: 0.0})


def loss_lost_once(run: Recorded) -> None:
    run.put(LOSS, {12: math.nan})


def nothing_trained(run: Recorded) -> None:
    run.put(GRADIENT, dict.fromkeys(range(1, 21), 0.0))


def one_step_without_gradient(run: Recorded) -> None:
    run.put(GRADIENT, {11: 0.0})


def _scored_alike(run: Recorded, steps: range, reward: float = 0.0) -> None:
    for name in ("mean", "max", "min"):
        run.put(f"critic/rewards/{name}", dict.fromkeys(steps, reward))
        run.put(f"critic/advantages/{name}", dict.fromkeys(steps, 0.0))


def rewards_all_alike(run: Recorded) -> None:
    _scored_alike(run, range(1, 21))


def rewards_mostly_alike(run: Recorded) -> None:
    _scored_alike(run, range(8, 21), 1.0)


def rewards_at_times_alike(run: Recorded) -> None:
    _scored_alike(run, range(8, 13))


def rewards_differ_by_group_only(run: Recorded) -> None:
    """Some prompts are always answered right, the others never: no group has an advantage."""
    for name in ("mean", "max", "min"):
        run.put(f"critic/advantages/{name}", dict.fromkeys(range(1, 21), 0.0))


def nothing_trained_and_nothing_right(run: Recorded) -> None:
    nothing_trained(run)
    rewards_all_alike(run)
    loss_lost_from_nine_on(run)


EDITS = {
    name: edit
    for name, edit in globals().items()
    if callable(edit) and name[0].islower() and edit.__module__ == __name__
}


def _floor(step: int) -> float:
    """The gap of a healthy bfloat16 run: 4e-3 with a scatter of 8 % and a drift."""
    return 4e-3 * (1 + 0.01 * step + 0.11 * math.sin(7 * step))


def _gaps(run: Recorded) -> dict[int, float]:
    return {line["step"]: line["data"][GAP] for line in run.metrics if GAP in line["data"]}


def _set_gaps(run: Recorded, gaps: dict[int, float]) -> None:
    gap_not_logged(run)
    for line in run.metrics:
        if line["step"] in gaps:
            line["data"][GAP] = gaps[line["step"]]


def _without(line: str, wanted: Callable[[str], bool]) -> str:
    head, *pairs = line.rstrip("\n").split(" - ")
    kept = [pair for pair in pairs if not wanted(pair.rpartition(":")[0])]
    return " - ".join([head, *kept]) + "\n" if kept else ""


def _documents(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, documents: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
