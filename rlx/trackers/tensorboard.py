"""Write TensorBoard's event files, one folder per run, without its package: records of TFRecord with protobuf messages.

Source: tensorflow, lib/io/record_writer.h (length, its checksum, data, its checksum; CRC-32C, masked); tensorboard
2.21.0, compat/proto/event.proto, summary.proto, tensor.proto, and plugins/text/metadata.py.
"""

from __future__ import annotations

import re
import shlex
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rlx.trackers.exported_run import ExportedRun

PACKAGES = ()
_NOT_IN_NAMES = re.compile(r"[^\w .,:@+\[\]-]|^\.+")
_LONGEST_NAME = 200


def environment(folder: Path) -> Mapping[str, str]:
    return {}


def write(runs: Sequence[ExportedRun], folder: Path) -> None:
    for run in runs:
        place = folder / _file_name(run.project) / _file_name(run.name)
        place.mkdir(parents=True)
        begin = run.points[0].time if run.points else 0.0
        file = place / f"events.out.tfevents.{begin:.0f}.rlx"
        file.write_bytes(event_file(begin, _texts(run), run.points))


def next_command(runs: Sequence[ExportedRun], folder: Path) -> str:
    return f"tensorboard --logdir {shlex.quote(str(folder))}"


def _texts(run: ExportedRun) -> dict[str, str]:
    """Return the texts of the page "Text"; TensorBoard has no other tags of runs."""
    return {"rlx/verdict in a sentence": run.notes, **{f"rlx/{name}": value for name, value in run.tags.items()}}


def _file_name(text: str) -> str:
    """Return the folder, by which TensorBoard names a run."""
    return _NOT_IN_NAMES.sub("_", text)[:_LONGEST_NAME]


_MASK = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
# Wire types of protobuf.
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_STRINGS = 7  # DT_STRING
_TENSOR_CLASS = 2  # DATA_CLASS_TENSOR


def event_file(
    time: float, texts: Mapping[str, str], points: Iterable[tuple[int, float, Mapping[str, float]]]
) -> bytes:
    """Return a file: its version, the texts at step 0, and an event for each point (step, time, values)."""
    return b"".join(map(record, _events(time, texts, points)))


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _events(
    time: float, texts: Mapping[str, str], points: Iterable[tuple[int, float, Mapping[str, float]]]
) -> Iterator[bytes]:
    yield _double(1, time) + _field(3, b"brain.Event:2")
    for tag, text in texts.items():
        yield _event(time, 0, _text(tag, text))
    tags: dict[str, bytes] = {}
    for step, moment, values in points:
        yield _event(moment, step, b"".join(_scalar(tags, tag, value) for tag, value in values.items()))


def _event(time: float, step: int, summary: bytes) -> bytes:
    return _double(1, time) + _whole(2, step) + _field(5, summary)


def _scalar(tags: dict[str, bytes], tag: str, value: float) -> bytes:
    """Write a value of the summary. `tags` caches the bytes of each name, since every step has the same names."""
    head = tags.get(tag)
    if head is None:
        head = tags[tag] = _field(1, tag.encode()) + _key(2, _FLOAT)
    return _field(1, head + _float(value))


def _text(tag: str, text: str) -> bytes:
    tensor = _whole(1, _STRINGS) + _field(2, b"") + _field(8, text.encode())
    metadata = _field(1, _field(1, b"text")) + _whole(4, _TENSOR_CLASS)
    return _field(1, _field(1, tag.encode()) + _field(8, tensor) + _field(9, metadata))


def _float(value: float) -> bytes:
    """Write four bytes, as TensorBoard stores values; a value beyond their range is infinite."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _double(number: int, value: float) -> bytes:
    return _key(number, _DOUBLE) + struct.pack("<d", value)


def _whole(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _varint(value)


def _field(number: int, data: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(data)) + data


def _key(number: int, wire_type: int) -> bytes:
    return bytes([number << 3 | wire_type])


def _varint(value: int) -> bytes:
    """Write seven bits per byte, the lowest first, and a negative number as 64 bits, as in protobuf."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_table_entry, range(256)))


def crc32c(data: bytes) -> int:
    table, crc = _TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked_crc(data: bytes) -> bytes:
    """Mask a checksum that is stored beside its data, so that checksums of both stay strong."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)
