"""Write requirements/dev.lock: what `make setup` installs, each file by its SHA-256.

    .venv/bin/python requirements/lock.py          resolve anew, and write the lock
    .venv/bin/python requirements/lock.py --check  say whether pyproject.toml asks for anything that the lock lacks

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
LOCK = REPOSITORY / "requirements" / "dev.lock"
EXTRAS = ("verl-cpu", "dev")
WITHOUT_HASH = {"torch"}
# rlx itself is built without an environment of its own: hatchling asks for the second where an install is editable.
BUILDS = ("editables",)
_HEAD = """\
# What `make setup` installs beside torch, each file by its SHA-256. Written by: python requirements/lock.py
# For {platform}, which CI runs on. Elsewhere `make setup` says so, and goes by pyproject.toml.
# torch is not here: its CPU builds come from indices of their own. The Makefile names its version, and no file.
"""


def this_platform() -> str:
    return f"CPython {sys.version_info[0]}.{sys.version_info[1]} on {platform.system()} {platform.machine()}"


def asked() -> list[str]:
    """Return the requirements of pyproject.toml that are installed: rlx's own, the extras', and those of the build."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    own = [*project["project"]["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]
    return [*own, *project["build-system"]["requires"], *BUILDS]


def resolve() -> list[dict[str, Any]]:
    """Return what pip would install into an empty environment, with the digest of each file."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", report]
        subprocess.run([*pip, *asked()], check=True, cwd=folder)
        found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
    return found


def line_of(item: dict[str, Any]) -> str:
    info = item["download_info"]["archive_info"]
    digest = info.get("hashes", {}).get("sha256") or info["hash"].removeprefix("sha256=")
    return f"{_plain(item['metadata']['name'])}=={item['metadata']['version']} --hash=sha256:{digest}"


def _plain(name: str) -> str:
    """The name as packages are compared by. Source: PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, str]:
    """Return name and version of the lock's lines."""
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" ")[0].split("==") for line in lines if line and not line.startswith("#"))
    return dict(pairs)


def lacks() -> list[str]:
    """Return the requirements that no line of the lock meets."""
    from packaging.requirements import Requirement

    have = locked()
    wanted = [Requirement(text) for text in asked()]
    return [
        str(one)
        for one in wanted
        if _plain(one.name) not in WITHOUT_HASH
        and not one.specifier.contains(have.get(_plain(one.name), "0"), prereleases=True)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        missing = lacks()
        print("\n".join(f"requirements/dev.lock lacks {one}" for one in missing), end="\n" if missing else "")
        return 1 if missing else 0
    lines = sorted(line_of(item) for item in resolve() if _plain(item["metadata"]["name"]) not in WITHOUT_HASH)
    LOCK.write_text(_HEAD.format(platform=this_platform()) + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{LOCK}: {len(lines)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
