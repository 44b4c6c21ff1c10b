"""Tells which back-end a run would import here, or packs its configuration files. Imports nothing of it.

    python - look PACKAGE FOLDER ENTRYPOINT MODEL   a line of JSON behind a mark
    python - pack PACKAGE FOLDER ENTRYPOINT MODEL   a gzipped tar of FOLDER's files behind a mark: YAML, else Python

FOLDER lies below PACKAGE; ENTRYPOINT is a module or a file that ends in .py; MODEL is the model's folder, whose
config.json goes along. Travels on stdin and starts where the run would, with whatever Python that has (3.8 or later,
nothing but the standard library). Writes to stdout only. The mark tells the answer from what the interpreter's own
start may print.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import sys
import tarfile
from importlib import metadata
from pathlib import Path
from typing import Any

MARK = b"rlx-tree\n"
# verl describes its settings in YAML, MindSpeed-RL in classes.
PATTERNS = ("*.yaml", "*.py")
MOST_FILES = 2000
MOST_BYTES = 8 * 1024**2
MOST_MODEL_BYTES = 64 * 1024


def main(task: str, package: str, folder: str, entrypoint: str, model: str) -> None:
    if entrypoint.endswith(".py"):
        # Python puts the folder of a script first, not the working directory.
        sys.path[0] = str(Path(entrypoint).resolve().parent)
    places = locations(package)
    files = config_files([place / folder for place in places])
    if task == "pack":
        answer = pack(files)
    else:
        answer = json.dumps({**look(package, entrypoint, places, files), "model": model_config(model)}).encode()
    sys.stdout.buffer.write(MARK + answer)


def look(package: str, entrypoint: str, places: list[Path], files: dict[str, Path]) -> dict[str, Any]:
    too_large = len(files) > MOST_FILES or sum(path.stat().st_size for path in files.values()) > MOST_BYTES
    return {
        "package": str(places[0]) if places else None,
        "version": version(package, places),
        "entrypoint": has_entrypoint(entrypoint),
        "files": len(files),
        "digest": None if too_large else digest({name: content(path) for name, path in files.items()}),
    }


def model_config(model: str) -> str:
    """The text of the model's config.json; "" if there is none that can be read."""
    try:
        with (Path(model).expanduser() / "config.json").open("rb") as file:
            return file.read(MOST_MODEL_BYTES).decode()
    except (OSError, ValueError, RuntimeError):
        return ""


def locations(package: str) -> list[Path]:
    """Where `import` would find the package; asking for a top-level name runs no code of it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return []
    return [Path(place) for place in spec.submodule_search_locations or []] if spec else []


def version(package: str, places: list[Path]) -> str:
    """What the package says of itself; the record of an installed one may be another copy's."""
    for place in places:
        path = place / "version" / "version"
        if path.is_file():
            return content(path)[:100].decode(errors="replace").strip()
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def has_entrypoint(entrypoint: str) -> bool:
    if entrypoint.endswith(".py"):
        return Path(entrypoint).is_file()
    top, *inner = entrypoint.split(".")
    if not inner:
        return importlib.util.find_spec(top) is not None
    modules = [place.joinpath(*inner) for place in locations(top)]
    return any(path.is_file() for module in modules for path in (module.with_suffix(".py"), module / "__main__.py"))


def config_files(folders: list[Path]) -> dict[str, Path]:
    """Path below the folder -> path; the first folder that there is counts, and the first kind of files in it."""
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        return {}
    found = (
        {path.relative_to(folder).as_posix(): path for path in folder.rglob(pattern) if path.is_file()}
        for pattern in PATTERNS
    )
    return next(filter(None, found), {})


def content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES)


def digest(contents: dict[str, bytes]) -> str:
    """Of names and contents, in the order of the names."""
    lines = (f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents))
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def pack(files: dict[str, Path]) -> bytes:
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
