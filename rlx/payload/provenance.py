"""Writes down what a run really ran with: interpreter, package versions, the code in the working directory, its data.

    python provenance.py OUTPUT.json [DATA FILE…]

Travels to the host and runs there before the training, with whatever Python that has (3.8 or later, nothing but the
standard library). It never fails a run: what cannot be found out is recorded as an error string in its place.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Any

# Above this, hashing would delay the start; size, change time, first and last MB tell versions of a file apart.
HASH_WHOLE_UP_TO = 64 * 1024**2
EDGE = 1024**2
CODE = ("verl", "mindspeed_rl")


def main(output: str, data_files: Sequence[str]) -> None:
    record = {
        "schema_version": 1,
        "time": time.time(),
        "python": sys.version,
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.node(),
        "packages": attempt(packages),
        "code": {name: attempt(location, name) for name in CODE},
        "git_commit": attempt(git_commit, Path.cwd()),
        "data": {path: attempt(fingerprint, Path(path)) for path in data_files},
    }
    write(Path(output), json.dumps(record, indent=1, sort_keys=True))


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result, or why there is none."""
    try:
        return function(*arguments)
    except Exception as problem:  # noqa: BLE001 - a missing fact must not end a training run
        return f"error: {type(problem).__name__}: {problem}"


def packages() -> dict[str, str]:
    """Name -> version of everything installed; of two installed copies, the one that `import` finds."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(name, distribution.version)
    return found


def location(module: str) -> str | None:
    """The folder that `import` would take the module from; None if it is not there. A fork may shadow a wheel."""
    spec = util.find_spec(module)
    return str(Path(spec.origin).parent) if spec and spec.origin else None


def git_commit(folder: Path) -> str | None:
    """The commit checked out in `folder`, read without git; None outside a repository."""
    git = folder / ".git"
    if not git.is_dir():
        return None
    head = read(git / "HEAD").strip()
    if not head.startswith("ref: "):
        return head
    reference = head[len("ref: ") :]
    if (git / reference).is_file():
        return read(git / reference).strip()
    packed = read(git / "packed-refs").splitlines()
    return next((line.split(" ")[0] for line in packed if line.endswith(" " + reference)), None)


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and digest of a file; above HASH_WHOLE_UP_TO the digest is of its edges, and says so."""
    status = path.stat()
    record: dict[str, Any] = {"bytes": status.st_size, "modified": status.st_mtime}
    if status.st_size <= HASH_WHOLE_UP_TO:
        record["sha256"] = digest(path, [(0, status.st_size)])
    else:
        record["sha256_of_first_and_last_mb"] = digest(path, [(0, EDGE), (status.st_size - EDGE, EDGE)])
    return record


def digest(path: Path, ranges: Iterable[tuple[int, int]]) -> str:
    """SHA-256 of byte ranges, (offset, length) each."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        for offset, length in ranges:
            file.seek(offset)
            for start in range(0, length, EDGE):
                hashed.update(file.read(min(EDGE, length - start)))
    return hashed.hexdigest()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    attempt(main, sys.argv[1], sys.argv[2:])
