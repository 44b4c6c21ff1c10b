"""Query the NPUs: `npu-smi info`, device nodes, versions of driver, firmware and CANN, and Python's access to them.

The table of npu-smi differs between generations. In all of them a chip takes two rows: the first has the NPU's number,
name and health, the second the chip's number, bus address and use. Columns are found by their headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlx.model import Finding, Severity
from rlx.planning.probing.probe import Probe, ProbeFacts, ProbeResults, Side, chips, last_line, number

_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)")
# Used and total: `3416 / 65536`, `53444/ 65536`.
_PAIR = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")
_CODE = re.compile(r"ret is (-?\d{1,9})|ErrCode=(\d{1,9})")
_FAILED = re.compile(
    r"dcmi (?:model|module) initiali[sz]ed? failed|dcmi module initialize failed|ascend_hal", re.IGNORECASE
)
_DENIED = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)


def parse_npu_smi(text: str) -> dict[str, Any]:
    """Parse `chips` and their `processes`; `problem` is missing, denied, driver, unreadable or None.

    A chip has the NPU's number and its own, `device` (N in /dev/davinciN), name, health, and memory in MiB.
    """
    version = _VERSION.search(text)
    chips, processes = _tables(text)
    code = _CODE.search(text)
    return {
        "version": version[2] if version else None,
        "chips": _numbered(chips),
        "processes": processes,
        "problem": None if chips else _problem(text),
        "said": "" if chips else _said(text),
        "code": int(code[1] or code[2]) if code and not chips else None,
    }


def _problem(text: str) -> str:
    if "rlx: there is no npu-smi" in text or re.search(r"npu-smi: (?:command )?not found", text):
        return "missing"
    if _DENIED.search(text):
        return "denied"
    return "driver" if _FAILED.search(text) or _CODE.search(text) else "unreadable"


def _said(text: str) -> str:
    """Return the line with the reason, if there is one."""
    reasons = [line.strip()[:300] for line in text.splitlines() if _CODE.search(line) or _FAILED.search(line)]
    return reasons[0] if reasons else last_line(text)


def _tables(text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read the rows of the two tables; a heading begins the second one."""
    chips: list[dict[str, Any]] = []
    processes: list[dict[str, Any]] = []
    headings: list[str] = []
    second_heading: list[str] = []
    upper: list[str] | None = None
    for cells in _rows(text):
        first = cells[0].split()
        if first[:1] == ["NPU"]:
            headings, upper = cells, None
        elif first[:1] == ["Chip"] or (not cells[0] and "Bus-Id" in cells):
            second_heading = cells
        elif any(cell.startswith("Process id") for cell in headings):
            processes.extend(_process(headings, cells))
        elif upper is None:
            upper = cells if _is_upper(cells) else None
        else:
            chips.append(_chip(upper, cells, second_heading))
            upper = None
    return chips, processes


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row; the lines between the rows begin with `+`."""
    for line in text.splitlines():
        row = line.strip()
        if row.startswith("|") and row.endswith("|") and len(row) > 2:
            yield [cell.strip() for cell in row[1:-1].split("|")]


def _is_upper(cells: Sequence[str]) -> bool:
    return len(cells) >= 3 and number((cells[0].split() or [""])[0]) is not None


def _chip(upper: Sequence[str], lower: Sequence[str], heading: Sequence[str]) -> dict[str, Any]:
    # A 950 has separate cells for number and name, and no number of a chip.
    number_and_name = " ".join(upper[:-2]).split()
    ids = [number(word) for word in lower[0].split()]
    use = _PAIR.findall(lower[-1])
    used, total = (int(use[-1][0]), int(use[-1][1])) if use else (None, None)
    physical = ids[1] if len(ids) > 1 and heading and re.search(r"Phy-ID|Device", heading[0]) else None
    return {
        "npu": number(number_and_name[0]) if number_and_name else None,
        "chip": ids[0] if ids else 0,
        "device": physical,
        "name": " ".join(number_and_name[1:]),
        "health": upper[-2],
        "bus": lower[-2] if len(lower) > 1 else "",
        "used_mib": used,
        "total_mib": total,
    }


def _numbered(chips: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Use the NPU's number where the table does not name a chip's /dev/davinciN: one chip per card."""
    for chip in chips:
        if chip["device"] is None:
            chip["device"] = chip["npu"]
    return chips


def _process(headings: Sequence[str], cells: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield one process on one chip. `in_container` is its number in the container, if npu-smi has it."""
    if len(cells) != len(headings):
        return
    named = dict(zip(headings, cells, strict=True))
    ids = [number(word) for word in cells[0].split()]
    pid = number(named.get("Process id", ""))
    if not ids or ids[0] is None or pid is None:
        return
    yield {
        "npu": ids[0],
        "chip": ids[1] if len(ids) > 1 and ids[1] is not None else 0,
        "pid": pid,
        "name": named.get("Process name", ""),
        "used_mib": number(named.get("Process memory(MB)", "")),
        "in_container": number(named.get("Process id in container", "")),
    }


def parse_devices(text: str) -> dict[str, Any]:
    """Parse the numbers of /dev/davinciN and of /dev/nvidiaN, the NPU driver's nodes, and those not to be opened."""
    found = dict(re.findall(r"^(/dev/\S+) (yes|no)$", text, re.MULTILINE))
    gpus = {node: int(match[1]) for node in found if (match := re.fullmatch(r"/dev/nvidia(\d{1,4})", node))}
    nodes = {node: may for node, may in found.items() if node not in gpus}
    numbers = [int(match[1]) for node in nodes if (match := re.fullmatch(r"/dev/davinci(\d{1,4})", node))]
    return {
        "numbers": sorted(numbers),
        "gpus": sorted(gpus.values()),
        "manager": sorted(node for node in nodes if not re.fullmatch(r"/dev/davinci\d{1,4}", node)),
        "denied": sorted(node for node, may in nodes.items() if may == "no"),
    }


def parse_ascend(text: str) -> dict[str, Any]:
    """Parse the versions of driver, firmware and CANN; `cann_path` is the file with CANN's version."""
    facts: dict[str, Any] = {"driver": None, "firmware": None, "cann": None, "cann_path": None}
    for path, content in re.findall(r"^== (/\S+)\n(.*?)(?=^== |\Z)", text, re.MULTILINE | re.DOTALL):
        kind = "driver" if "/driver/" in path else "firmware" if "/firmware/" in path else "cann"
        version = _file_version(content)
        if version and facts[kind] is None:
            facts[kind] = version
            facts["cann_path"] = path if kind == "cann" else facts["cann_path"]
    return facts


def _file_version(content: str) -> str | None:
    """Read the release from `package_version`, since `Version` may be a part's. version.cfg has `[7.7.0:8.2.RC1]`."""
    for key in ("package_version", "Version", "version"):
        if found := re.search(rf"^{key}=(\S+)", content, re.MULTILINE):
            return found[1]
    running = re.search(r"^toolkit_(?:running|installed)_version=\[[^\]\n]*?:([^\]:\n]+)\]", content, re.MULTILINE)
    return running[1] if running else None


NPU_SMI = Probe("npu_smi", "npu_smi.sh", parse_npu_smi, limit_s=25, asks_devices=True)
DEVICES = Probe("devices", "devices.sh", parse_devices)
ASCEND = Probe("ascend", "ascend.sh", parse_ascend)


_NODES = {"npu": "/dev/davinci", "cuda": "/dev/nvidia"}
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


def wants_npus(results: ProbeResults) -> bool:
    return results.wanted.device == "npu"


def table(results: ProbeResults) -> Iterator[Finding]:
    """Check that npu-smi answers on the host, and in the container, where it needs the driver's folders."""
    for where, side in results.sides():
        found = side.of("npu_smi")
        # A host without device nodes has no NPUs; `missing` in a container is common, and Python decides.
        if "npu_smi" in side.silent:
            limit = side.silent["npu_smi"]
            message = f"npu-smi did not answer within {limit} s: the processes on the NPUs are not known"
            fix = f"the driver hangs: dmesg | grep -i davinci, on {results.site.host}; often only a reboot helps"
            yield Finding("RLX530", Severity.WARNING, message, fix, where)
        elif found.get("problem") in ("driver", "denied", "unreadable"):
            yield _unanswered(where, found, results, side is results.inside)


def _unanswered(where: str, found: ProbeFacts, results: ProbeResults, inside: bool) -> Finding:
    if found["problem"] == "unreadable":
        message = f"the output of npu-smi cannot be read: {found['said'] or 'it is empty'}"
        fix = "please report its output: npu-smi info"
    elif found["problem"] == "denied":
        message = f"this user may not use npu-smi: {found['said']}"
        fix = "join the driver's group: sudo usermod -aG HwHiAiUser USER, on the host"
    else:
        message = f"npu-smi cannot reach the driver: {found['said']}"
        fix = f"create the container with {_BINDS}" if inside else "another container may hold the devices: docker ps"
    severity = Severity.ERROR if wants_npus(results) else Severity.WARNING
    return Finding("RLX531", severity, message, fix, where)


def found_devices(results: ProbeResults) -> tuple[str, tuple[int, ...]] | None:
    """Return kind and numbers of the devices where a run would train; None where there are none or none was asked."""
    found = results.environment.of("devices") if results.environment else {}
    kinds = (("npu", found.get("numbers")), ("cuda", found.get("gpus")))
    return next(((kind, tuple(numbers)) for kind, numbers in kinds if numbers), None)


def declared(results: ProbeResults) -> Iterator[Finding]:
    """Compare the device nodes with the devices that the host's entry declares."""
    side, wanted = results.environment, results.wanted.declared
    if wanted is None or side is None or "devices" not in side.facts:
        return
    kind, count = wanted
    have = len(side.of("devices")["numbers" if kind == "npu" else "gpus"])
    if have >= count:
        return
    on_host = len(results.host.of("devices").get("numbers" if kind == "npu" else "gpus", ()))
    fix = "correct device in its entry (rlx hosts show names the file)"
    if results.site.container and on_host >= count:
        fix = "the container lacks them: create it with --device for each"
    message = f"the entry of {results.site.host} declares {count} × {kind}, and there are {have} device node(s)"
    severity = Severity.ERROR if have < (results.wanted.devices or count) else Severity.WARNING
    yield Finding("RLX507", severity, f"{message} {_NODES[kind]}N", fix, results.where)


def devices(results: ProbeResults) -> Iterator[Finding]:
    """Check that there are as many device nodes as the recipe needs."""
    side = results.environment
    found = side.of("devices") if side else {}
    if not found:
        return
    if found["denied"]:
        message = f"this user may not open {', '.join(found['denied'])}"
        fix = "join the group that owns them: ls -l /dev/davinci*"
        severity = Severity.ERROR if wants_npus(results) else Severity.WARNING
        yield Finding("RLX532", severity, message, fix, results.where)
    have, want = len(found["numbers"]), results.wanted.devices
    if wants_npus(results) and have < want:
        message = f"the recipe needs {want} NPUs, and there are {have} device node(s) /dev/davinciN"
        on_host = len(results.host.of("devices").get("numbers", ()))
        fix = (
            f"create the container with --device /dev/davinciN for each, and {_BINDS}"
            if results.site.container and on_host >= want
            else "lower layout.devices_per_node, or choose another host"
        )
        yield Finding("RLX533", Severity.ERROR, message, fix, results.where)


def health(results: ProbeResults) -> Iterator[Finding]:
    bad = [chip for chip in chips(results.host) if chip["health"] != _HEALTHY]
    listed = {chip["device"] for chip in chips(results.host)}
    gone = [number for number in results.host.of("devices").get("numbers", ()) if listed and number not in listed]
    if gone:
        message = f"npu-smi does not list {', '.join(f'/dev/davinci{number}' for number in gone)}: lost from the bus?"
        fix = "lspci | grep -i accelerators, on the host; exclude them: rlx launch … --devices"
        yield Finding("RLX534", Severity.WARNING, message, fix, results.site.host)
    if bad:
        named = ", ".join(f"{chip['device']} ({chip['health']})" for chip in bad)
        enough = len(chips(results.host)) - len(bad) >= results.wanted.devices
        severity = Severity.WARNING if enough else Severity.ERROR
        message = f"{len(bad)} of {len(chips(results.host))} NPUs are not healthy: {named}"
        fix = f"npu-smi info -t health -i {bad[0]['npu']}; exclude them: rlx launch … --devices"
        yield Finding("RLX534", severity, message, fix, results.site.host)


def holders(results: ProbeResults) -> Iterator[Finding]:
    """Report the processes on NPUs. A process in another container may be invisible, but its memory is not."""
    processes = results.host.of("npu_smi").get("processes") or []
    held = {(one["npu"], one["chip"]) for one in processes}
    if processes:
        named = "; ".join(_holder(chip, processes) for chip in chips(results.host) if _place(chip) in held)
        fix = "nothing: a run waits until its NPUs are free; rlx status shows the runs of rlx"
        yield Finding("RLX535", Severity.NOTE, f"NPUs in use: {named}", fix, results.site.host)
    full = [chip for chip in chips(results.host) if _place(chip) not in held and _full(chip)]
    if full:
        named = ", ".join(f"{chip['device']} ({chip['used_mib']} of {chip['total_mib']} MiB)" for chip in full)
        message = f"memory is held on NPUs where npu-smi shows no process: {named}"
        fix = "a container of another user may hold them, or a process that crashed: docker ps, on the host"
        yield Finding("RLX536", Severity.WARNING, message, fix, results.site.host)


def _place(chip: Mapping[str, Any]) -> tuple[int | None, int]:
    return chip["npu"], chip["chip"] or 0


def _full(chip: Mapping[str, Any]) -> bool:
    return bool(chip["total_mib"]) and chip["used_mib"] > chip["total_mib"] * _IDLE_SHARE


def _holder(chip: Mapping[str, Any], processes: list[dict[str, Any]]) -> str:
    own = [one for one in processes if (one["npu"], one["chip"]) == _place(chip)]
    names = ", ".join(f"{one['name'] or '?'} ({one['pid']})" for one in own[:2])
    more = f" and {len(own) - 2} more" if len(own) > 2 else ""
    return f"{chip['device']}: {names}{more}"


def image(results: ProbeResults) -> Iterator[Finding]:
    """Compare the SoC in the tag of an Ascend image with the chips of the host."""
    tag = str(results.host.of("container").get("image") or "").rpartition(":")[2].lower()
    names = {chip["name"] for chip in chips(results.host)}
    built_for = [soc for soc in _CHIPS_OF_TAG if soc in re.split(r"[-_.]", tag)]
    if names and built_for and not any(_CHIPS_OF_TAG[built_for[0]].fullmatch(name) for name in names):
        message = f"the image is built for {built_for[0]} ({tag}); the host has {', '.join(sorted(names))}"
        fix = "use the image with the host's SoC in its tag"
        yield Finding("RLX537", Severity.WARNING, message, fix, results.where)


def python(results: ProbeResults) -> Iterator[Finding]:
    """Check that Python reaches the NPUs where a run needs them."""
    side = results.environment
    found = side.of("accelerator") if side else {}
    if not side or not found or not _needs_npus(results, side):
        return
    failed = found["failed"]
    if "acl" in failed:
        message = f"import acl fails: {failed['acl']}"
        fix = "source CANN's set_env.sh in the host's setup (rlx hosts add … --setup), and never replace PYTHONPATH"
        yield Finding("RLX538", Severity.ERROR, message, fix, results.where)
    if "torch_npu" in failed:
        message = f"import torch_npu fails: {failed['torch_npu']}"
        yield Finding("RLX539", Severity.ERROR, message, "see RLX538 and RLX541", results.where)
    elif found.get("available") is False or "available" in failed:
        said = f": {failed['available']}" if "available" in failed else ""
        message = f"torch.npu.is_available() is false{said}"
        fix = f"the container needs the devices and the driver: {_BINDS}, -v /usr/local/Ascend/driver"
        yield Finding("RLX539", Severity.ERROR, message, fix, results.where)


def _needs_npus(results: ProbeResults, side: Side) -> bool:
    return wants_npus(results) or "torch_npu" in side.of("packages").get("packages", {})
