"""Check a plan against the devices that its host is said to have, and read the devices that a launch names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rlx.errors import UsageError
from rlx.hosts.inventory.host import Device, Host
from rlx.model import Finding, LaunchPlan, Severity

_ITEM = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_IDS = frozenset({"RLX501", "RLX502", "RLX503", "RLX504"})
_FORMS = "--devices takes a count (4), or device numbers (0,2-3; a single one is written 4-4)"


def on_devices(plan: LaunchPlan, host: Host, wanted: str | None) -> LaunchPlan:
    """Return the plan with the devices that a person named, and with a finding where the host has not what it needs.

    `wanted` is a count or a list of device numbers; both must be as many as the recipe needs. Raises UsageError.
    """
    numbers = _wanted(plan, wanted) if wanted is not None else plan.device_list
    findings = _findings(plan, host.device, numbers) if host.device else ()
    return replace(plan, device_list=numbers, findings=(*findings, *plan.findings))


def is_misplaced(plan: LaunchPlan) -> bool:
    """Return whether the host is known to lack the devices of the plan, or the launch names too few hosts."""
    return any(finding.id in _IDS for finding in plan.findings)


def parse_devices(text: str) -> tuple[int, ...] | int:
    """Read devices: `4` is a count, `0,2-3` and `4-4` are numbers. Raises UsageError."""
    if text.isascii() and text.isdigit() and len(text) < 5:
        return int(text)
    numbers = [number for item in text.split(",") for number in _range(item, text)]
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"--devices {text}: a device is named twice", _FORMS)
    return tuple(sorted(numbers))


def _range(item: str, text: str) -> range:
    match = _ITEM.fullmatch(item.strip())
    if match is None:
        raise UsageError(f"--devices {text}: {item!r} is no device number", _FORMS)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise UsageError(f"--devices {text}: {item} runs backwards", _FORMS)
    return range(first, last + 1)


def _wanted(plan: LaunchPlan, text: str) -> tuple[int, ...]:
    wanted = parse_devices(text)
    numbers = () if isinstance(wanted, int) else wanted
    if numbers and plan.device_kind == "cpu":
        raise UsageError(f"{plan.run_name} trains on the CPU, which has no device numbers", "leave out --devices")
    count = wanted if isinstance(wanted, int) else len(wanted)
    if count != plan.devices:
        raise UsageError(
            f"{plan.run_name} needs {plan.devices} {plan.device_kind}, --devices {text} names {count}",
            f"--set layout.devices_per_node={count} changes what it needs; " + _FORMS,
        )
    return numbers


def _findings(plan: LaunchPlan, device: Device, numbers: tuple[int, ...]) -> Iterator[Finding]:
    host, needed = plan.site.host, f"{plan.devices} × {plan.device_kind}"
    if plan.device_kind == "cpu":
        return
    if plan.device_kind != device.kind:
        yield _error("RLX501", f"the recipe needs {needed}, and {host} is declared to have {device.kind}")
    elif device.count is not None and plan.devices > device.count:
        yield _error("RLX502", f"the recipe needs {needed}, and {host} is declared to have {device.count}")
    elif device.count is not None and numbers and numbers[-1] >= device.count:
        last = device.count - 1
        yield _error("RLX502", f"{device.kind} {numbers[-1]} is named, and {host} is declared to have 0 to {last}")


def _error(name: str, message: str) -> Finding:
    return Finding(name, Severity.ERROR, message, "choose another host, or correct device in its entry (rlx hosts)")
