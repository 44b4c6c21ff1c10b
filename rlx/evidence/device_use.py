"""Summarise how the devices of a run were used, by samples: peaks by phase, growth, other processes. It judges nothing.

Each sample states how long metrics.jsonl was at that time, and when it was last written, which gives its step.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import BinaryIO

from rlx.evidence.grammars import own_or_all
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of
from rlx.evidence.reading.metric_table import MetricColumn
from rlx.evidence.reading.metrics_file import is_count, read_document
from rlx.evidence.reading.usage_file import UsageSample, read_usage
from rlx.evidence.run_evidence import Evidence
from rlx.local_files import open_regular
from rlx.model.run_dir import METRICS_FILE

UNKNOWN = "phase unknown"
_MIB = 1024.0
# The clocks of files and samples count whole seconds.
_BLUR_S = 1.0
# Fewer samples may miss a phase of each step, which would look like growth.
_FEWEST, _HEAD = 15, 5
_GREW_GIB, _GREW_SHARE = 1.0, 0.05
_CHUNK = 64 << 10
_LONGEST_LINE = 4 << 20


@dataclass(frozen=True, slots=True)
class PhasePeak:
    """The highest memory seen in a phase, in GiB, and the number of samples."""

    phase: str
    gib: float
    samples: int


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of the devices of a run, memory in GiB; None or "" where nothing was seen.

    `what`: whose memory it is. `total`: of one device. `busy`: in percent, the mean over samples and devices. `growth`
    and `neighbours`: sentences.
    """

    what: str
    samples: int
    peak: float
    total: float | None
    busy: float | None
    phases: tuple[PhasePeak, ...]
    growth: str
    neighbours: str


def device_use(usage: RunUsage, evidence: Evidence) -> DeviceUse | None:
    """Summarise the samples; None where no sample shows the memory."""
    seen = [(each, gib) for each in usage.samples if (gib := memory_gib(usage.kind, each.sample)) is not None]
    if not seen:
        return None
    devices = [device for each in usage.samples for device in each.sample.devices]
    totals = [device.total / _MIB for device in devices if device.total]
    busy = [device.busy for device in devices if device.busy is not None]
    return DeviceUse(
        what="its processes" if usage.kind == "cpu" else "a device",
        samples=len(seen),
        peak=max(gib for _, gib in seen),
        total=max(totals) if totals and usage.kind != "cpu" else None,
        busy=fmean(busy) if busy else None,
        phases=tuple(_phases(seen, evidence)),
        growth=_growth([(each.step, gib) for each, gib in seen if each.step is not None]),
        neighbours=_neighbours(usage),
    )


def memory_gib(kind: str, sample: UsageSample) -> float | None:
    """Return the memory in use of the fullest device; for a run on a CPU, that of its processes."""
    if kind == "cpu":
        return sample.own / _MIB if sample.own and sample.processes else None
    return max((device.used / _MIB for device in sample.devices if device.used is not None), default=None)


def busy_percent(kind: str, sample: UsageSample) -> float | None:
    """Return the mean over the devices."""
    busy = [device.busy for device in sample.devices if device.busy is not None]
    return fmean(busy) if busy else None


def host_gib(kind: str, sample: UsageSample) -> float | None:
    return sample.host[0] / _MIB if sample.host else None


def by_step(usage: RunUsage, read: Callable[[str, UsageSample], float | None]) -> MetricColumn:
    """Return the highest value of each step, over all attempts."""
    found: dict[int, float] = {}
    for each in usage.samples:
        value = read(usage.kind, each.sample)
        if each.step is not None and value is not None:
            found[each.step] = max(value, found.get(each.step, value))
    return MetricColumn(array("q", sorted(found)), array("d", [found[step] for step in sorted(found)]))


def _phases(seen: Sequence[tuple[StepSample, float]], evidence: Evidence) -> Iterator[PhasePeak]:
    """Yield the peaks in the order of the phases, samples without a phase last."""
    found: dict[str, list[float]] = defaultdict(list)
    order: dict[str, None] = {}
    steps: dict[int, Sequence[tuple[str, float]]] = {}
    for each, gib in seen:
        if each.step is not None and each.step not in steps:
            steps[each.step] = phases_of_step(evidence, each.step)
            order |= dict.fromkeys(phase for phase, _ in steps[each.step] if phase)
        found[_phase(each, steps, evidence)].append(gib)
    for phase in (*order, UNKNOWN):
        if sizes := found.get(phase):
            yield PhasePeak(phase, max(sizes), len(sizes))


def phases_of_step(evidence: Evidence, step: int) -> Sequence[tuple[str, float]]:
    """Return the phases of a step in their order with their seconds; "" for a time of unknown use."""
    values: Mapping[str, float] = evidence.metrics.get(step, {})
    return next((found for each in own_or_all(evidence.backend) if (found := each.phases(values))), ())


def _phase(each: StepSample, steps: Mapping[int, Sequence[tuple[str, float]]], evidence: Evidence) -> str:
    """Find the phase of a sample; unknown for a sample near the border of two phases."""
    if each.step is None or each.seconds is None:
        return UNKNOWN
    phases = steps[each.step]
    whole = evidence.metrics.get(each.step, {}).get(metric_of(evidence, Role.STEP_SECONDS) or "", 0.0)
    untimed = max(0.0, whole - sum(seconds for _, seconds in phases))
    earliest, latest = _at(phases, each.seconds - untimed - _BLUR_S), _at(phases, each.seconds + _BLUR_S)
    return earliest if earliest == latest and earliest else UNKNOWN


def _at(phases: Sequence[tuple[str, float]], seconds: float) -> str:
    if seconds < 0:
        return ""
    for phase, length in phases:
        if seconds < length:
            return phase
        seconds -= length
    return ""


def _growth(seen: Sequence[tuple[int, float]]) -> str:
    """Describe growth of memory over the steps: the median of the last third is above all of the first samples."""
    if len(seen) < _FEWEST:
        return ""
    first = max(gib for _, gib in seen[: max(_HEAD, len(seen) // 10)])
    last = median(gib for _, gib in seen[-(len(seen) // 3) :])
    if last - first < max(_GREW_GIB, _GREW_SHARE * first):
        return ""
    # Where it rose: from the last sample near the beginning to the first one near the end.
    near = 0.1 * (last - first)
    begin = max(step for step, gib in seen if gib <= first + near)
    end = next((step for step, gib in seen if gib >= last - near and step >= begin), seen[-1][0])
    over = f"over steps {begin} to {end}" if end > begin else f"at step {end}"
    return f"memory grew from {first:.1f} to {last:.1f} GiB {over}"


def _neighbours(usage: RunUsage) -> str:
    """Describe the memory that processes of others used on its devices."""
    found = [
        (device.others, device.device) for each in usage.samples for device in each.sample.devices if device.others
    ]
    if not found:
        return ""
    most, device = max(found)
    times = sum(any(device.others for device in each.sample.devices) for each in usage.samples)
    return (
        f"processes that are not of the run had up to {most / _MIB:.1f} GiB of device {device}, "
        f"in {times} of {len(usage.samples)} samples"
    )


@dataclass(frozen=True, slots=True)
class StepSample:
    """A sample, the step that was running then, and for how many seconds; None where it is not known."""

    sample: UsageSample
    step: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunUsage:
    """The samples of all attempts of a run, in their order. `kind`: of its devices."""

    kind: str = ""
    samples: tuple[StepSample, ...] = ()


NO_USAGE = RunUsage()


def read_run_usage(attempt_dirs: Sequence[Path]) -> RunUsage:
    """Read the samples of these attempts; empty where none of them has a file."""
    read = [(folder, read_usage(folder, number)) for number, folder in enumerate(attempt_dirs, start=1)]
    samples = (found for folder, usage in read for found in _stepped(folder, usage.samples))
    return RunUsage(next((usage.kind for _, usage in read if usage.kind), ""), tuple(samples))


def _stepped(folder: Path, samples: Sequence[UsageSample]) -> Iterator[StepSample]:
    """Assign samples to steps: a step begins when the metrics of the one before are written, and ends with its own."""
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
    """Return the step of the last complete line in the first `size` bytes; None if the file is shorter or has none."""
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
