"""Writes down what a run really ran with: interpreter, package versions, hardware, image and driver, the code and its
uncommitted changes, its data, the weights it began with.

    python provenance.py OUTPUT.json MODEL FOLDER [DATA FILE…]

Travels to the host and runs there before the training, with whatever Python that has (3.8 or later, nothing but the
standard library). It never fails a run: what cannot be found out is recorded as an error string in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Any

import provenance_weights

# Above this, hashing would delay the start; size, change time, first and last MB tell versions of a file apart.
HASH_WHOLE_UP_TO = 64 * 1024**2
EDGE = 1024**2
CODE = ("verl", "mindspeed_rl")
# A working tree on a slow shared disk must not hold up the training for long.
GIT_S = 20
# No monitor that a repository configures is started. Containers often run as another user than the owner of the
# source, which git would refuse.
SETTINGS = ("safe.directory=*", "core.fsmonitor=false", "core.quotePath=true", "color.ui=false")
GIT = ("git", *(word for setting in SETTINGS for word in ("-c", setting)))
VERSION_FILES = {
    "driver": ("/usr/local/Ascend/driver/version.info",),
    "cann": (
        "/usr/local/Ascend/ascend-toolkit/latest/*-linux/ascend_toolkit_install.info",
        "/usr/local/Ascend/cann/*-linux/ascend_toolkit_install.info",
        "/usr/local/Ascend/ascend-toolkit/latest/version.cfg",
    ),
}


def main(output: str, model: str, data_files: Sequence[str]) -> None:
    sources = {name: attempt(source, name) for name in CODE}
    record = {
        "schema_version": 1,
        "time": time.time(),
        "python": sys.version,
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.node(),
        "packages": attempt(packages),
        "hardware": attempt(hardware),
        "load": attempt(load),
        "image": attempt(image),
        "ascend": {name: attempt(ascend_version, patterns) for name, patterns in VERSION_FILES.items()},
        "code": {name: attempt(location, name) for name in CODE},
        "git_commit": attempt(git_commit, Path.cwd()),
        "commits": {name: attempt(commit, root) for name, root in sources.items()},
        "changes": {name: attempt(changes, root) for name, root in sources.items()},
        "data": {path: attempt(fingerprint, Path(path)) for path in data_files},
        "model": attempt(provenance_weights.shape_of, provenance_weights.folder_of(model)),
    }
    write(Path(output), json.dumps(record, indent=1, sort_keys=True))
    if isinstance(record["model"], dict):
        provenance_weights.start(output, record["model"]["path"], os.getppid())


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result, or why there is none."""
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


def hardware() -> dict[str, Any]:
    """Return the kind of processor, how many this process may use, and the accelerators of the machine."""
    return {
        "processor": attempt(processor),
        "processors": len(os.sched_getaffinity(0)),
        "accelerators": attempt(accelerators),
    }


def load() -> dict[str, Any]:
    """Return the load before the training: the mean of runnable processes in a minute, and the number of processors."""
    return {"minute": round(os.getloadavg()[0], 2), "processors": os.cpu_count()}


def processor() -> str:
    """As Linux names it; on machines where it names none (arm64), the architecture."""
    found = re.search(r"^model name\s*:\s*(.+)$", read(Path("/proc/cpuinfo")), re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def accelerators() -> dict[str, int]:
    """How many of each kind are on the PCI bus, as `vendor:device`: Ascend NPUs are 19e5:…, GPUs of NVIDIA 10de:…"""
    kinds = [kind for kind in map(pci_kind, sorted(Path("/sys/bus/pci/devices").glob("*"))) if kind]
    return {kind: kinds.count(kind) for kind in kinds}


def pci_kind(device: Path) -> str | None:
    """None for what is neither a processing accelerator, a 3D controller, nor a graphics card of NVIDIA."""
    kind, vendor, model = (read(device / name).strip()[2:] for name in ("class", "vendor", "device"))
    is_one = kind.startswith(("12", "0302")) or (kind.startswith("0300") and vendor == "10de")
    return f"{vendor}:{model}" if is_one else None


def location(module: str) -> str | None:
    """Return the folder from which `import` would take the module; None without one. A fork may shadow a wheel."""
    spec = util.find_spec(module)
    return str(Path(spec.origin).parent) if spec and spec.origin else None


def image() -> str | None:
    """Return the digest or id of the container's image, as found when the run was started. None outside a container."""
    given = os.environ.get("RLX_IMAGE")
    file = Path(os.environ.get("RLX_RUN_DIR", "/nowhere"), "image")
    return given or (read(file).strip() if file.is_file() else None)


def ascend_version(patterns: Sequence[str]) -> str | None:
    """Read the version in the first file that exists; version.cfg writes it as `[7.7.0.1.231:8.2.RC1]`."""
    for file in (found for pattern in patterns for found in sorted(Path("/").glob(pattern[1:]))):
        text = read(file)
        for expression in (r"^package_version=(\S+)", r"^[Vv]ersion=(\S+)", r"^toolkit_running_version=\[.*:(.+)\]"):
            found = re.search(expression, text, re.MULTILINE)
            if found:
                return found.group(1)
    return None


def source(module: str) -> Path | None:
    """Return the working tree from which a module is imported; None for an installed or a missing module."""
    place = location(module)
    for folder in Path(place).resolve().parents if place else ():
        # An environment inside a working tree is no part of that tree.
        if folder.name in ("site-packages", "dist-packages"):
            return None
        if (folder / ".git").exists():
            return folder
    return None


def commit(root: Any) -> str | None:
    if not isinstance(root, Path):
        return root
    try:
        return git(root, "rev-parse", "HEAD").decode().strip()
    except FileNotFoundError:
        return git_commit(root)


def changes(root: Any) -> str | None:
    """SHA-256 over what is not committed: the difference to HEAD, and the names of new files. `none`: all is."""
    if not isinstance(root, Path):
        return root
    index = root / git(root, "rev-parse", "--git-path", "index").decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        # git brings the index up to date while it compares; the one of the working tree is not ours to write.
        copy = shutil.copy2(str(index), folder)
        difference = git(root, "diff", "--no-ext-diff", "--no-textconv", "--full-index", "HEAD", index=copy)
        new = git(root, "ls-files", "-z", "--others", "--exclude-standard", index=copy)
    return hashlib.sha256(difference + b"\0" + new).hexdigest() if difference or new else "none"


def git(root: Path, *arguments: str, index: str | None = None) -> bytes:
    """Return git's output. Raises if git fails or takes too long."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    if index:
        environment["GIT_INDEX_FILE"] = index
    done = subprocess.run(
        [*GIT, "-C", str(root), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        timeout=GIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip()[:200])
    return done.stdout


def git_commit(folder: Path) -> str | None:
    """Read the commit checked out in `folder` without git; None outside a repository."""
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
    attempt(main, sys.argv[1], sys.argv[2], sys.argv[3:])
