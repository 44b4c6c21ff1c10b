"""Join the samples of a run to its steps: each says how far metrics.jsonl was then, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rlx.evidence.reading.run_files import is_count, read_document
from rlx.evidence.reading.usage_file import Sample, read_usage
from rlx.local_files import open_regular
from rlx.model.run_dir import METRICS_FILE

_CHUNK = 64 << 10
_LONGEST_LINE = 4 << 20


@dataclass(frozen=True, slots=True)
class StepSample:
    """A sample, the step that went on then, and for how many seconds; None where nothing says so."""

    sample: Sample
    step: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunUsage:
    """The samples of all attempts of a run, in their order. `kind`: of its devices."""

    kind: str = ""
    samples: tuple[StepSample, ...] = ()


NO_USAGE = RunUsage()


def read_run_usage(attempt_dirs: Sequence[Path]) -> RunUsage:
    """What the samplers of these attempts saw; nothing where none of them left a file."""
    read = [(folder, read_usage(folder, number)) for number, folder in enumerate(attempt_dirs, start=1)]
    samples = (found for folder, usage in read for found in _stepped(folder, usage.samples))
    return RunUsage(next((usage.kind for _, usage in read if usage.kind), ""), tuple(samples))


def _stepped(folder: Path, samples: Sequence[Sample]) -> Iterator[StepSample]:
    """A step begins when the metrics of the one before are written, and ends when its own are."""
    if not samples:
        return
    done: dict[int, int | None] = {}
    try:
        with open_regular(folder / METRICS_FILE) as file:
            for size in {sample.metrics[0] for sample in samples if sample.metrics}:
                done[size] = _last_step(file, size)
    except OSError:
        done = {}
    for sample in samples:
        before = done.get(sample.metrics[0]) if sample.metrics else None
        if before is None or sample.metrics is None:
            yield StepSample(sample)
        else:
            yield StepSample(sample, before + 1, max(0.0, sample.at - sample.metrics[1]))


def _last_step(file: BinaryIO, size: int) -> int | None:
    """The step of the last whole line within so many bytes; None where the file is shorter, or there is none."""
    if not 0 < size <= file.seek(0, 2):
        return None
    text = b""
    while text.count(b"\n") < 2 and len(text) < min(size, _LONGEST_LINE):
        begin = max(0, size - len(text) - _CHUNK)
        file.seek(begin)
        text = file.read(size - len(text) - begin) + text
    lines = text.split(b"\n")
    step = read_document(lines[-2] if len(lines) > 1 else b"").get("step")
    return step if is_count(step) else None
