"""Tells which back-end a run would import here, or packs its configuration files. Imports nothing of it.

    look PACKAGE FOLDER ENTRYPOINT MODEL WORKDIR PYTHON PATH…   a line of JSON behind a mark
    pack PACKAGE FOLDER ENTRYPOINT MODEL WORKDIR PYTHON PATH…   a gzipped tar of FOLDER's files behind a mark: YAML,
                                                                else Python; below _start the YAML files of the
                                                                folder `config` beside ENTRYPOINT

FOLDER is below PACKAGE; ENTRYPOINT is a module or a file that ends in .py; MODEL is the model's folder, whose
config.json goes along. WORKDIR is where the run starts, or nothing; PATHs are what its PYTHONPATH adds. PYTHON is the
run's interpreter, if that must not be started: then the packages beside it are read, as far as plain folders tell.

Needs Python 3.8 or later and nothing but its standard library. Nothing of these folders is ever on the path that this
program itself imports from. Writes to stdout only. The mark tells the answer from what the interpreter's own start may
print.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import sys
import tarfile
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

MARK = b"rlx-tree\n"
# verl describes its settings in YAML, MindSpeed-RL in classes.
PATTERNS = ("*.yaml", "*.py")
# The folder for the program's configuration, beside that of the package.
START = "_start"
MOST_FILES = 2000
MOST_BYTES = 8 * 1024**2
MOST_MODEL_BYTES = 64 * 1024


class Run:
    """Where the Python of a run would import from. `libraries` is None for that of the interpreter that asks."""

    def __init__(self, entrypoint: str, workdir: str, python: str, paths: list[str]) -> None:
        self.workdir = Path(workdir).expanduser() if workdir else None
        script = self.path(entrypoint) if entrypoint.endswith(".py") else None
        # Python puts the folder of a script first, and the working directory only without one.
        start = script.resolve().parent if script else self.workdir
        self.script = script
        self.first = [str(self.path(path)) for path in ([start] if start else []) + list(filter(None, paths))]
        self.libraries = libraries(self.path(python)) if python else None

    def path(self, text: str | Path) -> Path:
        path = Path(text).expanduser()
        return self.workdir / path if self.workdir else path

    def places(self) -> list[str]:
        return self.first + (sys.path if self.libraries is None else self.libraries)

    def find(self, module: str) -> ModuleSpec | None:
        """Find a top-level module, which runs no code of it. A folder without __init__ counts if nothing else does."""
        found = [PathFinder.find_spec(module, self.first), self.find_installed(module)]
        specs = [spec for spec in found if spec]
        return next((spec for spec in specs if spec.origin), specs[0] if specs else None)

    def find_installed(self, module: str) -> ModuleSpec | None:
        if self.libraries is not None:
            return PathFinder.find_spec(module, self.libraries)
        try:
            return importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None


def libraries(python: Path) -> list[str]:
    """List the folders of packages beside an interpreter, and those that plain lines of their .pth files name."""
    prefix = python.parent.parent
    folders = [path for kind in ("site", "dist") for path in sorted(prefix.glob(f"lib*/python3*/{kind}-packages"))]
    lines = (line.strip() for folder in folders for path in sorted(folder.glob("*.pth")) for line in path_lines(path))
    return [*map(str, folders), *(line for line in lines if line.startswith("/"))]


def path_lines(path: Path) -> list[str]:
    return content(path)[:MOST_MODEL_BYTES].decode(errors="replace").splitlines() if path.is_file() else []


def main(task: str, package: str, folder: str, entrypoint: str, model: str, *place: str) -> None:
    workdir, python, *paths = place
    run = Run(entrypoint, workdir, python, paths)
    places = locations(run, package)
    folders = [place / folder for place in places]
    files = {**config_files(folders), **start_files(run, entrypoint, folders)}
    if task == "pack":
        answer = pack(files)
    else:
        answer = json.dumps({**look(run, package, entrypoint, files), "model": model_config(run, model)}).encode()
    sys.stdout.buffer.write(MARK + answer)


def look(run: Run, package: str, entrypoint: str, files: dict[str, Path]) -> dict[str, Any]:
    places = locations(run, package)
    too_large = len(files) > MOST_FILES or sum(path.stat().st_size for path in files.values()) > MOST_BYTES
    return {
        "package": str(places[0]) if places else None,
        "version": version(run, package, places),
        "entrypoint": has_entrypoint(run, entrypoint),
        "files": len(files),
        "digest": None if too_large else digest({name: content(path) for name, path in files.items()}),
    }


def model_config(run: Run, model: str) -> str:
    """Return the text of the model's config.json; "" if none can be read."""
    try:
        with (run.path(model) / "config.json").open("rb") as file:
            return file.read(MOST_MODEL_BYTES).decode()
    except (OSError, ValueError, RuntimeError):
        return ""


def locations(run: Run, package: str) -> list[Path]:
    spec = run.find(package)
    return [Path(place) for place in spec.submodule_search_locations or []] if spec else []


def version(run: Run, package: str, places: list[Path]) -> str:
    """Read the version in the package itself; the record of an installed one may be another copy's."""
    for place in places:
        path = place / "version" / "version"
        if path.is_file():
            return content(path)[:100].decode(errors="replace").strip()
    found = metadata.distributions(name=package.replace("_", "-"), path=run.places())
    return next((str(one.version or "") for one in found), "")


def has_entrypoint(run: Run, entrypoint: str) -> bool:
    if run.script:
        return run.script.is_file()
    top, *inner = entrypoint.split(".")
    if not inner:
        return run.find(top) is not None
    modules = [place.joinpath(*inner) for place in locations(run, top)]
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


def start_files(run: Run, entrypoint: str, own: list[Path]) -> dict[str, Path]:
    """List the YAML files of the folder `config` beside the program that starts, unless they are among `own`."""
    if run.script:
        beside = [run.script.parent / "config"]
    else:
        top, *inner = entrypoint.split(".")
        beside = [place.joinpath(*inner[:-1], "config") for place in locations(run, top)]
    known = {folder.resolve() for folder in own}
    files = config_files([folder for folder in beside if folder.resolve() not in known])
    return {f"{START}/{name}": path for name, path in files.items() if path.suffix == ".yaml"}


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
