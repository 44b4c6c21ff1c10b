"""Show what the devices of runs did, beside what was estimated of them. It describes, and decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.evidence.device_use import UNKNOWN, DeviceUse, PhasePeak

HEADING = "device usage (informational)"


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """`estimated`: the range in GiB by phase, as npu-smi would show it; empty where nothing was estimated."""

    run_id: str
    label: str
    use: DeviceUse
    estimated: Mapping[str, tuple[float, float]]


def device_lines(reports: Sequence[DeviceReport]) -> Iterator[str]:
    """Under a heading, what each run had, by phase, and what stands out; nothing where no run was sampled."""
    if reports:
        yield HEADING
    for report in reports:
        yield f"  {report.label}: {_peak(report.use)}"
        if any(peak.phase != UNKNOWN for peak in report.use.phases):
            yield f"    by phase, and estimated: {', '.join(peak_words(peak, report) for peak in report.use.phases)}"
        yield from (f"    {sentence}" for sentence in sentences(report.use))


def sentences(use: DeviceUse) -> Iterator[str]:
    """Yield what is unusual in the device use: memory growth, and other processes."""
    yield from filter(None, (use.growth, use.neighbours))


def _peak(use: DeviceUse) -> str:
    of = f" of {use.total:.1f}" if use.total is not None else ""
    busy = f", utilisation {use.busy:.0f} % on average" if use.busy is not None else ""
    return f"{use.what} had up to {use.peak:.1f}{of} GiB in {use.samples} samples{busy}"


def peak_words(peak: PhasePeak, report: DeviceReport) -> str:
    """`actor update 55.0 (54.4–55.5)`."""
    beside = f" ({estimate_text(report, peak.phase)})" if peak.phase in report.estimated else ""
    return f"{peak.phase} {peak.gib:.1f}{beside}"


def estimate_text(report: DeviceReport, phase: str) -> str:
    """Return the range, or `–` where there is none of that phase."""
    if phase not in report.estimated:
        return "–"
    lower, upper = report.estimated[phase]
    return f"{lower:.1f}–{upper:.1f}"
