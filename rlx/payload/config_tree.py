"""Tells which back-end a run would import here, or packs its configuration files. Imports nothing of it.

    python - look PACKAGE FOLDER ENTRYPOINT   a line of JSON behind a mark
    python - pack PACKAGE FOLDER ENTRYPOINT   a gzipped tar of FOLDER's YAML files behind a mark

FOLDER lies below PACKAGE; ENTRYPOINT is a module or a file that ends in .py. Travels on stdin and starts where the run
would, with whatever Python that has (3.8 or later, nothing but the standard library). Writes to stdout only. The mark
tells the answer from what the interpreter's own start may print.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import sys
import tarfile
from importlib import metadata
from typing import Any

MARK = b"rlx-tree\n"
MOST_FILES = 2000
MOST_BYTES = 8 * 1024**2


def main(task: str, package: str, folder: str, entrypoint: str) -> None:
    if entrypoint.endswith(".py"):
        # Python puts the folder of a script first, not the working directory.
        sys.path[0] = os.path.dirname(os.path.abspath(entrypoint))
    places = locations(package)
    files = yaml_files([os.path.join(place, folder) for place in places])
    answer = pack(files) if task == "pack" else json.dumps(look(package, entrypoint, places, files)).encode()
    sys.stdout.buffer.write(MARK + answer)


def look(package: str, entrypoint: str, places: list[str], files: dict[str, str]) -> dict[str, Any]:
    too_large = len(files) > MOST_FILES or sum(map(os.path.getsize, files.values())) > MOST_BYTES
    return {
        "package": places[0] if places else None,
        "version": version(package, places),
        "entrypoint": has_entrypoint(entrypoint),
        "files": len(files),
        "digest": None if too_large else digest({name: content(path) for name, path in files.items()}),
    }


def locations(package: str) -> list[str]:
    """Where `import` would find the package; asking for a top-level name runs no code of it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return []
    return list(spec.submodule_search_locations or []) if spec else []


def version(package: str, places: list[str]) -> str:
    """What the package says of itself; the record of an installed one may be another copy's."""
    for place in places:
        path = os.path.join(place, "version", "version")
        if os.path.isfile(path):
            return content(path)[:100].decode(errors="replace").strip()
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def has_entrypoint(entrypoint: str) -> bool:
    if entrypoint.endswith(".py"):
        return os.path.isfile(entrypoint)
    top, *inner = entrypoint.split(".")
    if not inner:
        return importlib.util.find_spec(top) is not None
    ends = (".py", os.path.sep + "__main__.py")
    return any(os.path.isfile(os.path.join(place, *inner) + end) for place in locations(top) for end in ends)


def yaml_files(folders: list[str]) -> dict[str, str]:
    """Path below the folder -> path; the first folder that there is counts."""
    folder = next(filter(os.path.isdir, folders), None)
    found = {}
    for place, _, names in os.walk(folder) if folder else ():
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".yaml") and os.path.isfile(path):
                found[os.path.relpath(path, folder)] = path
    return found


def content(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(MOST_BYTES)


def digest(contents: dict[str, bytes]) -> str:
    """Of names and contents, in the order of the names."""
    lines = (f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents))
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def pack(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            data = content(files[name])
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


if __name__ == "__main__":
    main(*sys.argv[1:])
