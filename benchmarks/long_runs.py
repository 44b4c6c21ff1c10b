"""Run directories of many long runs, as rlx leaves them, for benchmarks: 100 metrics a step, 1319 validation items."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.logs import METRICS
from rlx.model import LOCAL, Expectations, LaunchPlan, NoiseSchedule, Site, sigmas_by_step
from rlx.runs.manifest import render_manifest
from rlx.runs.run import RunRef

ITEMS = 1319
_VALIDATE_EVERY = 100
_METRIC = "val-core/openai/gsm8k/acc/mean@1"
_GAP = "training/rollout_probs_diff_mean"
_STAGES = 10
_LAYERS = 57
_BODIES = 200
_STAMP = "20261120-120000"


def write_run(root: Path, arm: str, number: int, steps: int, ended: bool = True, seed: int = 1) -> Path:
    """A run, the control where `number` is 0; returns its console log. `ended`: it recorded its end."""
    plan = _plan(arm, number, steps, str(root), seed)
    names = (f"{plan.run_name}-{_STAMP}-abcd", f"{_STAMP}-abcdef", "many", arm, seed)
    ref = RunRef(*names, LOCAL, str(root), time.time())
    attempt = ref.run_dir / "attempts" / "1"
    (attempt / "state").mkdir(parents=True)
    (ref.run_dir / "manifest.json").write_text(render_manifest(ref, number, plan), encoding="utf-8")
    (ref.run_dir / "latest").symlink_to("attempts/1")
    write_console(attempt / "log", number, steps, seed)
    _write_metrics(attempt / "metrics.jsonl", number, steps, seed)
    if plan.expectations.noise:
        _write_events(attempt / "events", plan.expectations.noise, steps)
    (attempt / "state" / "started").touch()
    if ended:
        (attempt / "state" / "exit").write_text(f"0 leader {time.time():.0f} 100\n", encoding="utf-8")
    return attempt / "log"


def write_console(path: Path, number: int, steps: int, seed: int = 1) -> None:
    """About 3 kB a step."""
    bodies = [_printed(body) for body in _bodies()]
    with path.open("w", encoding="utf-8") as log:
        log.write(f"train dataset size: 7473, val dataset size: {ITEMS}\nTotal training steps: {steps}\n")
        for step, values in _values(number, steps, seed):
            log.write(f"(TaskRunner pid=7) step:{step} - {_printed(values)} - {bodies[step % _BODIES]}\n")


def _write_metrics(path: Path, number: int, steps: int, seed: int) -> None:
    bodies = [json.dumps(body)[1:] for body in _bodies()]
    with path.open("w", encoding="utf-8") as file:
        for step, values in _values(number, steps, seed):
            file.write(f'{{"step": {step}, "data": {json.dumps(values)[:-1]}, {bodies[step % _BODIES]}}}\n')


def _write_events(folder: Path, noise: NoiseSchedule, steps: int) -> None:
    """Clean weights before each validation, noisy ones before each rollout, as the payload records them."""
    folder.mkdir()
    with (folder / "replica-0.jsonl").open("w", encoding="utf-8") as file:
        for step in range(steps + 1):
            if step % _VALIDATE_EVERY == 0:
                file.write(json.dumps(_event("validation", step, 0.0)) + "\n")
            if step < steps:
                file.write(json.dumps(_event("rollout", step + 1, noise.sigma(step + 1))) + "\n")


def _event(phase: str, step: int, sigma: float) -> dict[str, object]:
    elements = _LAYERS * 4096 if sigma else 0
    return {
        "kind": "noise",
        "phase": phase,
        "step": step,
        "sigma": sigma,
        "replica": 0,
        "layers": _LAYERS if sigma else 0,
        "skipped": 0,
        "elements": elements,
        "changed": elements * 9 // 10,
        "effective_std": sigma,
        "time": 1795228962.5 + step,
    }


def _values(number: int, steps: int, seed: int) -> Iterator[tuple[int, Mapping[str, float]]]:
    """What differs from run to run: the time, the validations, and the gap that the noise opens."""
    rng = random.Random(number + 1000 * (seed - 1))
    for step in range(steps + 1):
        noisy = number > 0 and step > steps // _STAGES
        values = {"timing_s/step": 40 + rng.random(), _GAP: 0.004 * (1 + rng.random()) + 0.01 * noisy} if step else {}
        if step % _VALIDATE_EVERY == 0:
            values[_METRIC] = round(ITEMS * (0.6 + 0.1 * rng.random())) / ITEMS
        yield step, values


def _bodies() -> Iterator[dict[str, float]]:
    rng = random.Random(1)
    for _ in range(_BODIES):
        body = {"perf/total_num_tokens": float(rng.randrange(10**6))}
        yield body | {f"actor/some_longer_name/{number}": rng.random() for number in range(METRICS - len(body))}


def _printed(values: Mapping[str, float]) -> str:
    """Every fifth value as numpy 2 prints it."""
    shown = (
        f"{key}:np.float64({value})" if number % 5 == 0 else f"{key}:{value}"
        for number, (key, value) in enumerate(values.items())
    )
    return " - ".join(shown)


def _plan(arm: str, number: int, steps: int, root: str, seed: int) -> LaunchPlan:
    sigmas = sigmas_by_step(0.05, 0.0005, _STAGES, steps)
    noise = NoiseSchedule(sigmas, _STAGES, ("rmsnorm",), "payload", False) if number else None
    validations = tuple(range(0, steps + 1, _VALIDATE_EVERY))
    return LaunchPlan(
        name="many",
        arm=arm,
        control="a0",
        seed=seed,
        backend="verl",
        backend_version="0.9.1",
        site=Site(root=root),
        command=(),
        env={},
        secrets=(),
        files=(),
        expectations=Expectations(steps, validations, True, ITEMS, 1, _METRIC, noise, True),
        treatment=("train.lr", "aqn"),
        recipe={"name": "many", "train": {"lr": 1e-6 * (1 + number)}, "aqn": {"stages": _STAGES} if number else None},
        device_kind="cpu",
        devices=1,
    )
