"""Writes console logs of historic runs as their published tables allow: `python reconstruct.py FOLDER`.

These are reconstructions, not recordings. README.md says what is known and what was added.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ITEMS = 1319
STAGES = {"global": 10, "epoch-aware": 5}
TRAINER, WORKER = "(TaskRunner pid=1) ", "(WorkerDict pid=2) "
METRIC = "val-core/openai/gsm8k/acc/mean@1"


def reconstruct(folder: Path) -> None:
    """One log for each record of published.json, `<record>.log`."""
    for name, record in json.loads((HERE / "published.json").read_text(encoding="utf-8")).items():
        text = "\n".join(log_lines(record)) + "\n"
        (folder / f"{name}.log").write_text(text, encoding="utf-8")


def log_lines(record: Mapping[str, Any]) -> Iterator[str]:
    total, noise = record["steps"], record.get("noise")
    accuracy = {int(step): share(percent) for step, percent in record["accuracy"].items()}
    if record.get("says_total", True):
        yield f"{TRAINER}Total training steps: {total}"
    if noise:
        yield from announcement(noise, total)
    for step in range(record.get("ends", total) + 1):
        metrics = {METRIC: accuracy[step]} if step in accuracy else {}
        if step:
            metrics = {"training/global_step": step, **metrics}
        if metrics:
            yield f"{TRAINER}step:{step} - " + " - ".join(f"{key}:{value!r}" for key, value in metrics.items())
        if noise:
            yield from sync(noise, step, total)


def share(percent: float) -> float:
    """The published percentage as the run must have printed it: the share of 1319 answers that rounds to it.

    The value itself where no such share does.
    """
    correct = round(percent / 100 * ITEMS)
    exact = correct / ITEMS
    return exact if round(100 * exact, 2) == round(percent, 2) else round(percent / 100, 4)


def announcement(noise: Mapping[str, Any], total: int) -> Iterator[str]:
    stages = STAGES[noise["mode"]]
    if noise["mode"] == "global":
        yield f"{TRAINER}[RayPPOTrainer] Noise injection initialized: {stages - 1} stages, {total} total steps"
        yield f"{WORKER}[AQN] Noise injection enabled: {stages - 1} stages, total_steps={total}, targets=AUTO"
        return
    epochs = noise["epochs"]
    said = f"{TRAINER}[RayPPOTrainer] Epoch-aware noise injection"
    yield f"{said} (Option C): {epochs} epochs, {stages} stages/epoch"
    yield f"{said}: {total // epochs} steps/epoch, {total} total steps"
    yield f"{said} config passed to rollout: {epochs} epochs, {stages} stages/epoch"
    yield f"{WORKER}[AQN] Epoch-aware noise injection enabled: {epochs} epochs, {stages} stages/epoch, targets=AUTO"


def sync(noise: Mapping[str, Any], step: int, total: int) -> Iterator[str]:
    """What the worker prints when it gets the weights after a step."""
    injection = f"{WORKER}[AQN] Noise injection (Dense) - Step: "
    rest = "LayerTypes: ['rmsnorm'], Target: ALL"
    if noise["mode"] == "epoch-aware":
        epoch, within = divmod(step, total // noise["epochs"])
        stage, sigma = sigma_of(noise, within, total // noise["epochs"])
        here = f"step={step} (epoch {epoch + 1}, step {within})"
        yield f"{WORKER}[AQN-EpochAware] {here}, sigma_id={stage}, sigma={sigma:.6f}"
        # Whatever it announced, it asks for stage 0 of one stage, which is free of noise.
        yield f"{injection}0/1, Sigma ID: 0, Sigma: {0:.6f}, {rest}"
        return
    stage, sigma = sigma_of(noise, step, total)
    yield f"{WORKER}[AQN] Applying noise injection: step={step}/{total}, sigma_id={stage}, sigma={sigma:.6f}"
    yield f"{injection}{step}/{total}, Sigma ID: {stage}, Sigma: {sigma:.6f}, {rest}"
    if sigma:
        yield f"{WORKER}[AQN] Applied noise to 57 RMSNorm layers (skipped 0 excluded layers)"


def sigma_of(noise: Mapping[str, Any], step: int, total: int) -> tuple[int, float]:
    """Stage and sigma of a step: none in the first stage, then falling in equal ratios."""
    stages = STAGES[noise["mode"]]
    stage = min(int(step // (total / stages)), stages - 1)
    ratio = noise["sigma_end"] / noise["sigma_start"]
    return stage, noise["sigma_start"] * ratio ** ((stage - 1) / (stages - 2)) if stage else 0.0


if __name__ == "__main__":
    reconstruct(Path(sys.argv[1]))
