"""Findings on the NPUs: driver, devices, health, who holds them, and whether Python reaches them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlx.model import Finding, Severity
from rlx.planning.probing.examined import Examined, chips
from rlx.planning.probing.probe import Facts, Side

_BINDS = (
    "--device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc -v /usr/local/dcmi:/usr/local/dcmi"
)
# An idle chip of 64 GiB shows 3 to 4 GiB in use by its own firmware.
_IDLE_SHARE = 0.1
_HEALTHY = "OK"
# The SoC in the tag of an image of quay.io/ascend, and how npu-smi names the chips of that generation.
_CHIPS_OF_TAG: Mapping[str, re.Pattern[str]] = {
    "a3": re.compile(r"Ascend910(_93\S*)?"),
    "910b": re.compile(r"910B\S*"),
    "310p": re.compile(r"310P\S*"),
}


def wants_npus(examined: Examined) -> bool:
    return examined.wanted.device == "npu"


def table(examined: Examined) -> Iterator[Finding]:
    """Tell whether npu-smi answers: on the host, and in the container, where it needs the driver's folders."""
    for where, side in examined.sides():
        found = side.of("npu_smi")
        # Without device nodes this is simply no NPU host; `missing` inside is common, and Python decides.
        if "npu_smi" in side.silent:
            limit = side.silent["npu_smi"]
            message = f"npu-smi did not answer within {limit} s: who holds which NPU is not known"
            fix = f"the driver hangs: dmesg | grep -i davinci, on {examined.site.host}; often only a reboot helps"
            yield Finding("RLX530", Severity.WARNING, message, fix, where)
        elif found.get("problem") in ("driver", "denied", "unreadable"):
            yield _unanswered(where, found, examined, side is examined.inside)


def _unanswered(where: str, found: Facts, examined: Examined, inside: bool) -> Finding:
    if found["problem"] == "unreadable":
        message = f"npu-smi says nothing that rlx can read: {found['said'] or 'nothing at all'}"
        fix = "please report its output: npu-smi info"
    elif found["problem"] == "denied":
        message = f"npu-smi may not be used: {found['said']}"
        fix = "join the driver's group: sudo usermod -aG HwHiAiUser USER, on the host"
    else:
        message = f"npu-smi cannot reach the driver: {found['said']}"
        fix = f"create the container with {_BINDS}" if inside else "another container may hold the devices: docker ps"
    severity = Severity.ERROR if wants_npus(examined) else Severity.WARNING
    return Finding("RLX531", severity, message, fix, where)


def devices(examined: Examined) -> Iterator[Finding]:
    """Check that as many device nodes are within reach as the recipe wants."""
    side = examined.environment
    found = side.of("devices") if side else {}
    if not found:
        return
    if found["denied"]:
        message = f"this user may not open {', '.join(found['denied'])}"
        fix = "join the group that owns them: ls -l /dev/davinci*"
        severity = Severity.ERROR if wants_npus(examined) else Severity.WARNING
        yield Finding("RLX532", severity, message, fix, examined.where)
    have, want = len(found["numbers"]), examined.wanted.devices
    if wants_npus(examined) and have < want:
        message = f"the recipe wants {want} NPUs; {have} device node(s) /dev/davinciN are here"
        on_host = len(examined.host.of("devices").get("numbers", ()))
        fix = (
            f"create the container with --device /dev/davinciN for each, and {_BINDS}"
            if examined.site.container and on_host >= want
            else "lower layout.devices_per_node, or choose another host"
        )
        yield Finding("RLX533", Severity.ERROR, message, fix, examined.where)


def health(examined: Examined) -> Iterator[Finding]:
    bad = [chip for chip in chips(examined.host) if chip["health"] != _HEALTHY]
    listed = {chip["device"] for chip in chips(examined.host)}
    gone = [number for number in examined.host.of("devices").get("numbers", ()) if listed and number not in listed]
    if gone:
        message = f"npu-smi does not list {', '.join(f'/dev/davinci{number}' for number in gone)}: fallen off the bus?"
        fix = "lspci | grep -i accelerators, on the host; leave them out: rlx launch … --devices"
        yield Finding("RLX534", Severity.WARNING, message, fix, examined.site.host)
    if bad:
        named = ", ".join(f"{chip['device']} ({chip['health']})" for chip in bad)
        enough = len(chips(examined.host)) - len(bad) >= examined.wanted.devices
        severity = Severity.WARNING if enough else Severity.ERROR
        message = f"{len(bad)} of {len(chips(examined.host))} NPUs are not healthy: {named}"
        fix = f"npu-smi info -t health -i {bad[0]['npu']}; leave them out: rlx launch … --devices"
        yield Finding("RLX534", severity, message, fix, examined.site.host)


def holders(examined: Examined) -> Iterator[Finding]:
    """Name who holds which NPU. A process in another container may be invisible; its memory is not."""
    processes = examined.host.of("npu_smi").get("processes") or []
    held = {(one["npu"], one["chip"]) for one in processes}
    if processes:
        named = "; ".join(_holder(chip, processes) for chip in chips(examined.host) if _place(chip) in held)
        fix = "nothing: a run waits until its NPUs are free; rlx status shows the runs of rlx"
        yield Finding("RLX535", Severity.NOTE, f"NPUs in use: {named}", fix, examined.site.host)
    full = [chip for chip in chips(examined.host) if _place(chip) not in held and _full(chip)]
    if full:
        named = ", ".join(f"{chip['device']} ({chip['used_mib']} of {chip['total_mib']} MiB)" for chip in full)
        message = f"memory is held on NPUs where npu-smi shows no process: {named}"
        fix = "a container of another user may hold them, or a process died badly: docker ps, on the host"
        yield Finding("RLX536", Severity.WARNING, message, fix, examined.site.host)


def _place(chip: Mapping[str, Any]) -> tuple[int | None, int]:
    return chip["npu"], chip["chip"] or 0


def _full(chip: Mapping[str, Any]) -> bool:
    return bool(chip["total_mib"]) and chip["used_mib"] > chip["total_mib"] * _IDLE_SHARE


def _holder(chip: Mapping[str, Any], processes: list[dict[str, Any]]) -> str:
    own = [one for one in processes if (one["npu"], one["chip"]) == _place(chip)]
    names = ", ".join(f"{one['name'] or '?'} ({one['pid']})" for one in own[:2])
    more = f" and {len(own) - 2} more" if len(own) > 2 else ""
    return f"{chip['device']}: {names}{more}"


def image(examined: Examined) -> Iterator[Finding]:
    """The tag of an Ascend image names the SoC that it is built for."""
    tag = str(examined.host.of("container").get("image") or "").rpartition(":")[2].lower()
    names = {chip["name"] for chip in chips(examined.host)}
    built_for = [soc for soc in _CHIPS_OF_TAG if soc in re.split(r"[-_.]", tag)]
    if names and built_for and not any(_CHIPS_OF_TAG[built_for[0]].fullmatch(name) for name in names):
        message = f"the image is built for {built_for[0]} ({tag}); the host has {', '.join(sorted(names))}"
        fix = "use the image with the host's SoC in its tag"
        yield Finding("RLX537", Severity.WARNING, message, fix, examined.where)


def python(examined: Examined) -> Iterator[Finding]:
    """Tell whether Python reaches the NPUs, where it is meant to."""
    side = examined.environment
    found = side.of("accelerator") if side else {}
    if not side or not found or not _is_meant_to(examined, side):
        return
    failed = found["failed"]
    if "acl" in failed:
        message = f"import acl fails: {failed['acl']}"
        fix = "source CANN's set_env.sh in the host's setup (rlx hosts add … --setup), and never replace PYTHONPATH"
        yield Finding("RLX538", Severity.ERROR, message, fix, examined.where)
    if "torch_npu" in failed:
        message = f"import torch_npu fails: {failed['torch_npu']}"
        yield Finding("RLX539", Severity.ERROR, message, "see RLX538 and RLX541", examined.where)
    elif found.get("available") is False or "available" in failed:
        said = f": {failed['available']}" if "available" in failed else ""
        message = f"torch.npu.is_available() is false{said}"
        fix = f"the container needs the devices and the driver: {_BINDS}, -v /usr/local/Ascend/driver"
        yield Finding("RLX539", Severity.ERROR, message, fix, examined.where)


def _is_meant_to(examined: Examined, side: Side) -> bool:
    return wants_npus(examined) or "torch_npu" in side.of("packages").get("packages", {})
