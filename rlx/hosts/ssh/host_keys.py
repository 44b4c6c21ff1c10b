"""The lines of known_hosts files that are about one host (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).

Read line by line: paramiko parses every key of a file first, which takes seconds for a big one, and gives the whole
file up at a line with a marker.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_MARKERS = ("@cert-authority", "@revoked")


@dataclass(frozen=True, slots=True)
class HostKey:
    """`marker` is empty for a plain key, else @revoked or @cert-authority."""

    marker: str
    kind: str
    data: bytes


def host_keys(files: Iterable[Path], host: str, port: int) -> list[HostKey]:
    """The keys of a host. Lines that cannot be read are no keys; a file that is not there has none."""
    name = host.lower() if port == 22 else f"[{host.lower()}]:{port}"
    return [key for path in files for line in _lines(path) for key in _keys_in(line, name)]


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError:
        return


def _keys_in(line: str, name: str) -> Iterator[HostKey]:
    fields = line.split()
    marker = fields.pop(0) if fields and fields[0] in _MARKERS else ""
    if len(fields) < 3 or fields[0].startswith(("#", "@")) or not _is_about(fields[0], name):
        return
    try:
        yield HostKey(marker, fields[1], base64.b64decode(fields[2]))
    except binascii.Error:
        return


def _is_about(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _is_hash_of(patterns, name)
    listed = patterns.lower().split(",")
    refused = any(_matches(name, pattern[1:]) for pattern in listed if pattern.startswith("!"))
    return not refused and any(_matches(name, pattern) for pattern in listed if not pattern.startswith("!"))


def _matches(name: str, pattern: str) -> bool:
    """ssh's wildcards are * and ?; brackets are part of a name with a port."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _is_hash_of(hashed: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in hashed.split("|")[2:4])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
