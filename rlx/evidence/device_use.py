"""Say what the devices of a run did, by samples of them: peaks by phase, growth, neighbours. It judges nothing."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from rlx.evidence.grammars import own_or_all
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of
from rlx.evidence.reading.metric_table import Column
from rlx.evidence.reading.run_usage import RunUsage, StepSample
from rlx.evidence.reading.usage_file import Sample
from rlx.evidence.run_evidence import Evidence

UNKNOWN = "phase unknown"
_MIB = 1024.0
# The clocks of files and samples count whole seconds.
_BLUR_S = 1.0
# Fewer samples may miss a phase that comes in every step, and so look like growth.
_FEWEST, _HEAD = 15, 5
_GREW_GIB, _GREW_SHARE = 1.0, 0.05


@dataclass(frozen=True, slots=True)
class PhasePeak:
    """The most that was seen in a phase, in GiB, by how many samples."""

    phase: str
    gib: float
    samples: int


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What was seen of the devices of a run, memory in GiB; None or "" where nothing was.

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
    """None where no sample says anything of the memory."""
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


def memory_gib(kind: str, sample: Sample) -> float | None:
    """The memory that the fullest device of the run has in use; of a run on a CPU, that of its processes."""
    if kind == "cpu":
        return sample.own / _MIB if sample.own and sample.processes else None
    return max((device.used / _MIB for device in sample.devices if device.used is not None), default=None)


def busy_percent(kind: str, sample: Sample) -> float | None:
    """The mean over the devices."""
    busy = [device.busy for device in sample.devices if device.busy is not None]
    return fmean(busy) if busy else None


def host_gib(kind: str, sample: Sample) -> float | None:
    return sample.host[0] / _MIB if sample.host else None


def by_step(usage: RunUsage, read: Callable[[str, Sample], float | None]) -> Column:
    """The highest value of each step, in whichever attempt."""
    found: dict[int, float] = {}
    for each in usage.samples:
        value = read(usage.kind, each.sample)
        if each.step is not None and value is not None:
            found[each.step] = max(value, found.get(each.step, value))
    return Column(array("q", sorted(found)), array("d", [found[step] for step in sorted(found)]))


def _phases(seen: Sequence[tuple[StepSample, float]], evidence: Evidence) -> Iterator[PhasePeak]:
    """In the order of a step, what belongs to no phase last."""
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
    """The phases of a step in their order with their seconds; "" for a time of which nobody knows what it was."""
    values: Mapping[str, float] = evidence.metrics.get(step, {})
    return next((found for each in own_or_all(evidence.backend) if (found := each.phases(values))), ())


def _phase(each: StepSample, steps: Mapping[int, Sequence[tuple[str, float]]], evidence: Evidence) -> str:
    """A sample near the border of two phases is of neither."""
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
    """Say that memory grew over the steps: the last third is above all that the first samples saw."""
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
    """Say what processes that are not of the run had on its devices."""
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
