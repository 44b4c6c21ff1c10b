"""Say in words what the devices of a run do, and its host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.runs.duration import duration

if TYPE_CHECKING:
    from rlx.evidence.reading.usage_file import DeviceUse, Sample

_SAYS = {
    "missing": "its program (npu-smi, nvidia-smi) is not where the run is",
    "silent": "its program (npu-smi, nvidia-smi) did not answer in time",
    "unreadable": "its program (npu-smi, nvidia-smi) says nothing that rlx can read",
}


def sample_lines(sample: Sample | None, age: float | None) -> Iterator[str]:
    """A line a device, then its host. `age` in seconds."""
    if sample is None:
        return
    when = "" if age is None else f", {duration(age)} ago"
    if sample.says:
        yield f"devices not seen{when}: {_SAYS[sample.says]}"
    for device in sample.devices:
        yield f"device {device.device}{when}: {', '.join(_device(device))}"
    if host := ", ".join(_host(sample)):
        yield f"host{when}: {host}"


def _device(device: DeviceUse) -> Iterator[str]:
    if device.used is not None and device.total is not None:
        yield f"{_gib(device.used)} of {_gib(device.total)} GiB"
    if device.busy is not None:
        yield f"utilisation {device.busy} %"
    if device.celsius is not None:
        yield f"{device.celsius} °C"
    if device.others:
        yield f"{_gib(device.others)} GiB of it of processes that are not of the run"


def _host(sample: Sample) -> Iterator[str]:
    if sample.host:
        yield f"{_gib(sample.host[0])} of {_gib(sample.host[1])} GiB"
    if sample.group:
        yield f"its cgroup {_gib(sample.group[0])} of {_gib(sample.group[1])}"
    if sample.own is not None and sample.processes:
        yield f"the run {_gib(sample.own)} in {sample.processes} process{'es' * (sample.processes > 1)}"


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f}"
