"""Recorded runs as if they had trained on NPUs, sampled while they did: what a sampler would have written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlx.backends.verl.log import phases

BEGAN = 1_795_000_000
# Recorded on a CPU with a tiny model, the phases are too short for clocks of whole seconds.
SLOWER = 10
_LONGER_S = 3600


def seed_003(step: int, phase: str) -> float:
    """30 GiB while it generates, 55 in an update: what a guide for Qwen2.5-1.5B on 910C says of npu-smi."""
    return 55.0 if phase == "actor update" else 30.0


def grows(step: int, phase: str) -> float:
    """The same at any time of a step, and more from step to step."""
    return min(55.0, 30.0 + 2.5 * max(0, step - 3))


def sample(run: Path, memory: Callable[[int, str], float], others: int = 0, every: int = 3) -> None:
    """Write `usage` for a run directory, by the times that its metrics say, and make these times longer."""
    attempt = run / "attempts/1"
    documents = [
        _slower(json.loads(line)) for line in (attempt / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    lines = [json.dumps(document) + "\n" for document in documents]
    (attempt / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    _end_later(attempt / "state/exit")
    log = attempt / "log"
    text = re.sub(r"timing_s/|perf/(?=throughput|time_per_step)", "before/", log.read_text(encoding="utf-8"))
    log.write_text(text, encoding="utf-8")
    written = f"start {BEGAN} kind=npu devices=0,1 kills=0 scope=cgroup\n"
    written += "".join(_samples(documents, lines, memory, others, every))
    (attempt / "usage").write_text(written + "end kills=0\n", encoding="utf-8")


def on_npus(run: Path, recipe: Mapping[str, Any]) -> None:
    """Have the manifest say that the run was one of this recipe, on NPUs."""
    manifest = run / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    own = document["plan"]["recipe"]
    kept = {key: own[key] for key in ("name", "seed", "aqn") if key in own}
    document["plan"] |= {"recipe": {**recipe, **kept}, "device_kind": "npu"}
    manifest.write_text(json.dumps(document), encoding="utf-8")


def _slower(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "data": {key: _later(key, value) for key, value in document["data"].items()}}


def _later(key: str, value: float) -> float:
    if "timing_s/" in key or key == "perf/time_per_step":
        return SLOWER * value
    return value / SLOWER if key == "perf/throughput" else value


def _end_later(exit_file: Path) -> None:
    """The last but one word is the time of the end."""
    *before, end, last = exit_file.read_text(encoding="utf-8").split()
    exit_file.write_text(" ".join((*before, str(int(end) + _LONGER_S), last)) + "\n", encoding="utf-8")


def _samples(
    documents: list[dict[str, Any]], lines: list[str], memory: Callable[[int, str], float], others: int, every: int
) -> Iterator[str]:
    """One every so many seconds of each step that another one precedes."""
    now, size = BEGAN, 0
    for done, document, line in zip(documents, documents[1:], lines, strict=False):
        size += len(line)
        elapsed = list(phases(document["data"]))
        for second in range(1, int(sum(seconds for _, seconds in elapsed)), every):
            used = int(1024 * memory(document["step"], _phase_at(elapsed, second)))
            values = f"{used},65536,80,45,{used - others - 3000},{others}"
            yield (
                f"at {now + second} metrics={size},{now} cost=10 kills=0 host=200000,1500000 own=90000,1000,9 "
                f"d0={values} d1={used - 512},65536,60,44,-,-\n"
            )
        assert done["step"] + 1 == document["step"]
        now += int(sum(seconds for _, seconds in elapsed)) + 1


def _phase_at(elapsed: list[tuple[str, float]], second: float) -> str:
    for phase, seconds in elapsed:
        if second < seconds:
            return phase
        second -= seconds
    return ""
