"""Read which back-end a run would import on a host. Its configuration files come once and are kept by their digest.

What comes is another machine's word: names and sizes are checked before anything is written, and the digest after.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from rlx.errors import RlxError
from rlx.hosts.transport import Completed
from rlx.hosts.transports import transport_for
from rlx.local_files import parse_json
from rlx.model import NO_FOLDER, NO_PYTHON, NO_READER, Cmd, Installation, InstallationQuestion, Site

_TIMEOUT_S = 60.0
_MARK = b"rlx-tree\n"
_MOST_FILES = 2000
_MOST_BYTES = 8 * 1024**2


class _UnusableAnswer(Exception):
    """The answer cannot be used; the message says why, and stays inside this module."""


def find_installation(site: Site, query: InstallationQuestion, cache: Path) -> Installation:
    """One command there, and a second one if `cache` does not hold these files yet.

    Raises HostError if the host or container cannot be reached.
    """
    if site.job_image is not None:
        return Installation(f"the image {site.job_image.name}", problem="it is seen on the nodes of jobs only")
    where = f"container {site.container} of {site.host}" if site.container else site.host
    found = Installation(where, unasked="" if query.may_start else query.python)
    completed = _ask(site, query, "look")
    if missing := _missing_start(completed, query):
        return replace(found, missing=missing)
    try:
        answer = _parse(completed)
        if not answer["entrypoint"] and query.may_start:
            return replace(found, missing=_missing_code(answer, query), version=str(answer["version"]))
        found = replace(found, version=str(answer["version"]), model=str(answer["model"]))
        return replace(found, folder=_folder(site, query, answer, cache))
    except _UnusableAnswer as problem:
        return replace(found, problem=str(problem))


def _ask(site: Site, query: InstallationQuestion, task: str) -> Completed:
    place = replace(site.place, inside=site.container) if site.container else site.place
    command = Cmd("bash", "-s", "--", task, "start" if query.may_start else "read")
    return transport_for(place).run(command, stdin=query.script.encode(), timeout_s=_TIMEOUT_S)


def _missing_start(completed: Completed, query: InstallationQuestion) -> str:
    reasons = {
        NO_FOLDER: f"there is no folder {query.folder}",
        NO_PYTHON: f"there is no interpreter {query.python}",
        126: "bash cannot be started",
        127: "there is no bash",
    }
    # What comes before the query in the script is what comes before the training in launch.sh.
    complaint = _last_line(completed.err)
    return reasons.get(completed.code, complaint.removeprefix("rlx: ") if complaint.startswith("rlx: ") else "")


def _last_line(text: bytes) -> str:
    return "".join(text.decode(errors="replace").strip().splitlines()[-1:])


def _missing_code(answer: Mapping[str, Any], query: InstallationQuestion) -> str:
    if answer["package"] is None:
        return f"{query.python} finds no {query.package}"
    version = f" {answer['version']}" if answer["version"] else ""
    return f"{query.package}{version} in {answer['package']} has no {query.entrypoint}"


def _parse(completed: Completed) -> Mapping[str, Any]:
    try:
        answer = parse_json(_payload(completed))
        return {name: answer[name] for name in ("package", "version", "entrypoint", "model", "files", "digest")}
    except (ValueError, KeyError, TypeError):
        raise _UnusableAnswer("it did not say which back-end it has") from None


def _payload(completed: Completed) -> bytes:
    _, mark, payload = completed.out.partition(_MARK)
    if completed.code == NO_READER:
        raise _UnusableAnswer("it has no python3 of its own to look with")
    if completed.code != 0 or not mark:
        complaint = _last_line(completed.err) or f"exit {completed.code}"
        raise _UnusableAnswer(f"asking for its back-end failed: {complaint}")
    return payload


def _folder(site: Site, query: InstallationQuestion, answer: Mapping[str, Any], cache: Path) -> Path:
    if answer["package"] is None:
        if query.may_start:
            raise _UnusableAnswer(f"{query.python} finds no {query.package}")
        raise _UnusableAnswer(f"no folder of {query.package} is beside {query.python}, which was not started")
    digest = answer["digest"]
    if not answer["files"] or not isinstance(digest, str) or not _is_digest(digest):
        raise _UnusableAnswer(
            f"{answer['files']} configuration files in {answer['package']} are no number that rlx reads"
        )
    folder = cache / digest
    if not folder.is_dir():
        _keep(_unpack(_payload(_ask(site, query, "pack"))), digest, folder)
    with suppress(OSError):
        os.utime(folder)
    return folder


def latest_tree(cache: Path) -> Path | None:
    """Return the files that were found the last time, on whatever host; None if there are none."""
    with suppress(OSError):
        return max(
            (entry for entry in cache.iterdir() if _is_digest(entry.name)),
            key=lambda folder: folder.stat().st_mtime,
            default=None,
        )
    return None


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _unpack(archive: bytes) -> dict[str, bytes]:
    """Path → content of regular YAML or Python files below one folder, and nothing else. None of it is ever run."""
    files: dict[str, bytes] = {}
    room = _MOST_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(_text_of(archive)), mode="r|") as entries:
            for entry in entries:
                room -= entry.size
                if not _is_harmless(entry) or room < 0 or len(files) == _MOST_FILES:
                    raise _UnusableAnswer(f"it sent {entry.name[:100]!r} as a configuration file")
                content = entries.extractfile(entry)
                files[entry.name] = content.read() if content else b""
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as problem:
        raise _UnusableAnswer(f"its configuration files did not arrive: {problem}") from None
    return files


def _text_of(archive: bytes) -> bytes:
    """Unpack it first, because a reader of archives trusts what their headers say of sizes."""
    unpacking = zlib.decompressobj(wbits=31)
    text = unpacking.decompress(archive, 2 * _MOST_BYTES)
    if not unpacking.eof:
        raise ValueError(f"they are not whole, or more than {2 * _MOST_BYTES >> 20} MiB")
    return text


def _is_harmless(entry: tarfile.TarInfo) -> bool:
    path = PurePosixPath(entry.name)
    plain = entry.name.isprintable() and "\\" not in entry.name and str(path) == entry.name
    inside = not path.is_absolute() and ".." not in path.parts
    return entry.isreg() and plain and inside and path.suffix in (".yaml", ".py")


def _keep(files: Mapping[str, bytes], digest: str, folder: Path) -> None:
    """Write aside and rename: a folder that is there is complete, also with several rlx at once."""
    if _digest(files) != digest:
        raise _UnusableAnswer("its configuration files changed while they were read")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as scratch:
            for name, content in files.items():
                path = Path(scratch, "tree", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            try:
                Path(scratch, "tree").replace(folder)
            except OSError:
                # Linux says "not empty" of a folder that another process has just put there: its files are the same.
                if not folder.is_dir():
                    raise
    except OSError as problem:
        raise RlxError(f"{folder}: {problem.strerror}", "check that the folder is writable and not full") from None


def _digest(files: Mapping[str, bytes]) -> str:
    """Compute the digest as config_tree.py does."""
    lines = (f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
