"""Write requirements/*.lock: what `make setup` and `make engines` install, each file by its SHA-256.

    .venv/bin/python requirements/lock.py          resolve anew, and write the locks
    .venv/bin/python requirements/lock.py engines  that of the engines alone, from engines-cpu.txt
    .venv/bin/python requirements/lock.py --check  say what is asked for that the locks lack

It asks pip, which resolves as it would install, for this Python and machine. torch is left out: CPU builds come from
indices of their own, which serve other files under the version that a public index serves with CUDA.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
LOCKS = {name: REPOSITORY / "requirements" / f"{name}.lock" for name in ("dev", "engines")}
ENGINES = REPOSITORY / "requirements" / "engines-cpu.txt"
EXTRAS = ("verl-cpu", "dev")
WITHOUT_HASH = {"torch"}
# rlx itself is built without an environment of its own: hatchling asks for the second where an install is editable.
BUILDS = ("editables",)
_HEAD = """\
# What `make {target}` installs beside torch, each file by its SHA-256. Written by: python requirements/lock.py
# For {platform}, which CI runs on. Elsewhere `make {target}` says so, and goes by {source}.
# torch is not here: its CPU builds come from indices of their own. The Makefile names its version, and no file.
"""


def this_platform() -> str:
    return f"CPython {sys.version_info[0]}.{sys.version_info[1]} on {platform.system()} {platform.machine()}"


def asked(name: str) -> list[str]:
    """Return the requirements of a lock: for `dev` those of pyproject.toml, its extras and its build."""
    if name == "engines":
        lines = ENGINES.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line and not line.startswith("#")]
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    own = [*project["project"]["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]
    return [*own, *project["build-system"]["requires"], *BUILDS]


def resolve(name: str) -> list[dict[str, Any]]:
    """Return what pip would install into an empty environment, with the digest of each file."""
    options = ["--no-deps"] if name == "engines" else []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", report]
        subprocess.run([*pip, *options, *asked(name)], check=True, cwd=folder)
        found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
    return found


def line_of(item: dict[str, Any]) -> str:
    info = item["download_info"]["archive_info"]
    digest = info.get("hashes", {}).get("sha256") or info["hash"].removeprefix("sha256=")
    return f"{_plain(item['metadata']['name'])}=={item['metadata']['version']} --hash=sha256:{digest}"


def _plain(name: str) -> str:
    """The name as packages are compared by. Source: PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, str]:
    """Return name and version of the lock's lines."""
    lines = LOCKS[name].read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" ")[0].split("==") for line in lines if line and not line.startswith("#"))
    return dict(pairs)


def lacks(name: str) -> list[str]:
    """Return the requirements that no line of the lock meets."""
    from packaging.requirements import Requirement

    have = locked(name)
    wanted = [Requirement(text) for text in asked(name)]
    return [
        str(one)
        for one in wanted
        if _plain(one.name) not in WITHOUT_HASH
        and not one.specifier.contains(have.get(_plain(one.name), "0"), prereleases=True)
    ]


def write(name: str) -> None:
    found = (item for item in resolve(name) if _plain(item["metadata"]["name"]) not in WITHOUT_HASH)
    lines = sorted(line_of(item) for item in found)
    target, source = ("setup", "pyproject.toml") if name == "dev" else (name, f"requirements/{ENGINES.name}")
    head = _HEAD.format(platform=this_platform(), target=target, source=source)
    LOCKS[name].write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{LOCKS[name]}: {len(lines)} packages")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="dev|engines")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if not given.check:
        for name in given.names or LOCKS:
            write(name)
        return 0
    missing = [f"requirements/{name}.lock lacks {one}" for name in LOCKS for one in lacks(name)]
    print("\n".join(missing), end="\n" if missing else "")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
