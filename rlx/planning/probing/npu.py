"""The NPUs: what `npu-smi info` draws, the device nodes, and the version files of driver, firmware and CANN.

The table differs from generation to generation. What stays: a chip takes two rows; the first holds the NPU's number,
its name and its health, the second the chip's number, its bus address and its use. Columns are found by their headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlx.planning.probing.probe import Probe, last_line, number

_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)")
# Used and total: `3416 / 65536`, `53444/ 65536`.
_PAIR = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")
_CODE = re.compile(r"ret is (-?\d{1,9})|ErrCode=(\d{1,9})")
_FAILED = re.compile(
    r"dcmi (?:model|module) initiali[sz]ed? failed|dcmi module initialize failed|ascend_hal", re.IGNORECASE
)
_DENIED = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)


def parse_npu_smi(text: str) -> dict[str, Any]:
    """`chips`, and on them `processes`; `problem` is missing, denied, driver, unreadable or None.

    A chip: the NPU's number and its own, `device` (N in /dev/davinciN), name, health, memory used and total (MiB).
    """
    version = _VERSION.search(text)
    chips, processes = _tables(text)
    return {
        "version": version[2] if version else None,
        "chips": _numbered(chips),
        "processes": processes,
        "problem": None if chips else _problem(text),
        "said": "" if chips else _said(text),
        "code": None if chips else _code(text),
    }


def _problem(text: str) -> str:
    if "rlx: there is no npu-smi" in text or re.search(r"npu-smi: (?:command )?not found", text):
        return "missing"
    if _DENIED.search(text):
        return "denied"
    return "driver" if _FAILED.search(text) or _CODE.search(text) else "unreadable"


def _said(text: str) -> str:
    """The line with the reason, if one can be told."""
    reasons = [line.strip()[:300] for line in text.splitlines() if _CODE.search(line) or _FAILED.search(line)]
    return reasons[0] if reasons else last_line(text)


def _code(text: str) -> int | None:
    found = _CODE.search(text)
    return int(found[1] or found[2]) if found else None


def _tables(text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of the two tables. The headings say where the second one begins."""
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
        elif _is_process_table(headings):
            processes.extend(_process(headings, cells))
        elif upper is None:
            upper = cells if _is_upper(cells) else None
        else:
            chips.append(_chip(upper, cells, second_heading))
            upper = None
    return chips, processes


def _rows(text: str) -> Iterator[list[str]]:
    """The cells of each row; the rules between the rows begin with `+`."""
    for line in text.splitlines():
        row = line.strip()
        if row.startswith("|") and row.endswith("|") and len(row) > 2:
            yield [cell.strip() for cell in row[1:-1].split("|")]


def _is_process_table(headings: Sequence[str]) -> bool:
    return any(cell.startswith("Process id") for cell in headings)


def _is_upper(cells: Sequence[str]) -> bool:
    return len(cells) >= 3 and number((cells[0].split() or [""])[0]) is not None


def _chip(upper: Sequence[str], lower: Sequence[str], heading: Sequence[str]) -> dict[str, Any]:
    # A 950 has a cell each for number and name, and no number of a chip.
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
    """Take the NPU's number where the table does not say which /dev/davinciN a chip is: one chip a card."""
    for chip in chips:
        if chip["device"] is None:
            chip["device"] = chip["npu"]
    return chips


def _process(headings: Sequence[str], cells: Sequence[str]) -> Iterator[dict[str, Any]]:
    """One process on one chip. `in_container` is its number there, where npu-smi knows it."""
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
    """Numbers of /dev/davinciN, the driver's own nodes, and those that this user may not open."""
    nodes = dict(re.findall(r"^(/dev/\S+) (yes|no)$", text, re.MULTILINE))
    numbers = [int(found[1]) for node in nodes if (found := re.fullmatch(r"/dev/davinci(\d{1,4})", node))]
    return {
        "numbers": sorted(numbers),
        "manager": sorted(node for node in nodes if not re.fullmatch(r"/dev/davinci\d{1,4}", node)),
        "denied": sorted(node for node, may in nodes.items() if may == "no"),
    }


def parse_ascend(text: str) -> dict[str, Any]:
    """Versions of driver, firmware and CANN; `cann_path` is where CANN's stands."""
    facts: dict[str, Any] = {"driver": None, "firmware": None, "cann": None, "cann_path": None}
    for path, content in re.findall(r"^== (/\S+)\n(.*?)(?=^== |\Z)", text, re.MULTILINE | re.DOTALL):
        kind = "driver" if "/driver/" in path else "firmware" if "/firmware/" in path else "cann"
        version = _file_version(content)
        if version and facts[kind] is None:
            facts[kind] = version
            facts["cann_path"] = path if kind == "cann" else facts["cann_path"]
    return facts


def _file_version(content: str) -> str | None:
    """`package_version` names the release; `Version` may be a part's own. version.cfg writes `[7.7.0:8.2.RC1]`."""
    for key in ("package_version", "Version", "version"):
        if found := re.search(rf"^{key}=(\S+)", content, re.MULTILINE):
            return found[1]
    running = re.search(r"^toolkit_(?:running|installed)_version=\[[^\]\n]*?:([^\]:\n]+)\]", content, re.MULTILINE)
    return running[1] if running else None


NPU_SMI = Probe("npu_smi", "npu_smi.sh", parse_npu_smi, limit_s=25, asks_devices=True)
DEVICES = Probe("devices", "devices.sh", parse_devices)
ASCEND = Probe("ascend", "ascend.sh", parse_ascend)
