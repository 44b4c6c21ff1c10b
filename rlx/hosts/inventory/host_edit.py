"""Change one entry of a file of hosts, or its defaults, as a person would: their lines, and nothing else of the file.

Dumping the file anew would lose its comments and its order. What was changed is read again before it is written: the
file then says what it said, and the change.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rlx.errors import RlxError, UsageError
from rlx.hosts.inventory.host import HostFile
from rlx.hosts.inventory.host_file import parse_host_file, read_text
from rlx.hosts.inventory.host_yaml import read_nodes
from rlx.model import LOCAL


def put_host(path: Path, name: str, entry: Mapping[str, Any], *, replace: bool) -> None:
    """Write the entry of a host. Raises UsageError if it is invalid, or there already and not to be replaced."""
    host = parse_host_file(_dump({"hosts": {name: entry}}), f"host {name}", has_lines=False).hosts[name]
    with _locked(path):
        text = read_text(path)
        before = parse_host_file(text, str(path))
        if name in before.hosts and not replace:
            raise UsageError(f"{before.hosts[name].written}: {name} is there already", "--replace writes it anew")
        change = _replaced if name in before.hosts else _inserted
        after = HostFile({**before.hosts, name: host}, before.defaults)
        _write(path, _proven(change(text, {name: entry}), path, after))


def change_entry(path: Path, name: str, changes: Mapping[str, Any]) -> None:
    """Change some keys of a host's entry, None removes one. Raises UsageError for a host that has no entry."""
    import yaml

    text = read_text(path)
    parse_host_file(text, str(path))
    entry = ((yaml.safe_load(text) or {}).get("hosts") or {}).get(name)
    if entry is None and name != LOCAL.host:
        raise UsageError(f"{path} has no host {name!r}", f"rlx hosts add {name} DESTINATION makes its entry")
    changed = {key: value for key, value in {**(entry or {}), **changes}.items() if value is not None}
    put_host(path, name, changed, replace=True)


def put_defaults(path: Path, defaults: Mapping[str, str | None]) -> None:
    """Write the defaults of a file in place of those it has; none where no host is given. Raises UsageError."""
    given = {key: value for key, value in defaults.items() if value is not None} if defaults.get("host") else {}
    wanted = parse_host_file(_dump({"defaults": given}), "defaults", has_lines=False).defaults if given else None
    with _locked(path):
        text = read_text(path)
        before = parse_host_file(text, str(path))
        lines = _lines(text)
        root, _ = read_nodes(text, "")
        for key, node in root.value if root else ():
            if key.value == "defaults":
                del lines[key.start_mark.line : _last_line(node) + 1]
        after = "".join([*lines, _dump({"defaults": given}) if given else ""])
        _write(path, _proven(after, path, HostFile(before.hosts, wanted)))


def remove_host(path: Path, name: str) -> None:
    """Remove the entry of a host. Raises UsageError if the file has no such host."""
    with _locked(path):
        text = read_text(path)
        before = parse_host_file(text, str(path))
        if name not in before.hosts:
            raise UsageError(f"{path} has no host {name!r}", "rlx hosts lists the known ones and their files")
        others = {other: host for other, host in before.hosts.items() if other != name}
        _write(path, _proven(_removed(text, name), path, HostFile(others, before.defaults)))


def _dump(document: Mapping[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10**6))


def _proven(text: str, path: Path, wanted: HostFile) -> str:
    """Return the text, if it has exactly the required content."""
    with suppress(UsageError):
        if parse_host_file(text, str(path)) == wanted:
            return text
    raise RlxError(f"{path} is written in a way that rlx cannot change", "edit it by hand")


def _inserted(text: str, entry: Mapping[str, Any]) -> str:
    root, _ = read_nodes(text, "")
    lines = _lines(text)
    pairs = root.value if root else []
    hosts = next((pair for pair in pairs if pair[0].value == "hosts"), None)
    if hosts is None:
        return "".join([*lines, "hosts:\n", _indented(entry, 2)])
    key, node = hosts
    has_entries = node.id == "mapping" and node.value
    indent = node.value[0][0].start_mark.column if has_entries else 2
    end = (_last_line(node) if has_entries else key.start_mark.line) + 1
    return "".join([*lines[:end], _indented(entry, indent), *lines[end:]])


def _replaced(text: str, entry: Mapping[str, Any]) -> str:
    (name,) = entry
    key, node = _entry(text, name)
    lines = _lines(text)
    before, behind = lines[: key.start_mark.line], lines[_last_line(node) + 1 :]
    return "".join([*before, _indented(entry, key.start_mark.column), *behind])


def _removed(text: str, name: str) -> str:
    """Return the text without the lines of an entry and of the comment right above it."""
    key, node = _entry(text, name)
    lines = _lines(text)
    first = key.start_mark.line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return "".join([*lines[:first], *lines[_last_line(node) + 1 :]])


def _entry(text: str, name: str) -> tuple[Any, Any]:
    """Return key node and value node of a host that is there."""
    root, _ = read_nodes(text, "")
    (hosts,) = (node for key, node in (root.value if root else ()) if key.value == "hosts")
    ((key, node),) = (pair for pair in hosts.value if pair[0].value == name)
    return key, node


def _lines(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _last_line(node: Any) -> int:
    """Return the last line of a value, from 0. A block ends for YAML only where the next thing starts."""
    if node.id != "scalar" and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if node.id == "mapping" else last)
    end: int = node.end_mark.line
    return end - 1 if node.end_mark.column == 0 and end > node.start_mark.line else end


def _indented(entry: Mapping[str, Any], columns: int) -> str:
    return textwrap.indent(_dump(entry), " " * columns)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let two commands take turns, so that neither forgets what the other wrote."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise RlxError(f"{path.parent}: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(path: Path, text: str) -> None:
    """Write the file whole or not at all. A link stays a link; a new file is for its user alone."""
    path = path.resolve()
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            if path.exists():
                shutil.copymode(path, temporary)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise RlxError(f"{path} cannot be written: {error.strerror}") from None
