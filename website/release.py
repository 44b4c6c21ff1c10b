"""Make a release of the version in rlx/__init__.py: changelog, build, check, tag. Nothing is uploaded.

It stops at the first thing that is missing and says it, so that typed again it goes on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from rlx import __version__
from website.pages import REPOSITORY

DIST = REPOSITORY / "dist"
CHANGELOG = REPOSITORY / "CHANGELOG.md"
NEEDED = (
    "rlx/py.typed",
    "rlx/_data/recipes/starter.yaml",
    "rlx/_data/docs/verdicts.md",
    "rlx/payload/supervise/50-holder.sh",
)


def main() -> None:
    """Refuse what is no release, build the rest, and tag it."""
    if problem := unready(CHANGELOG.read_text(encoding="utf-8"), __version__) or _uncommitted():
        sys.exit(f"make release: {problem}")
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", str(DIST))
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    if problem := lacking(wheel, source):
        sys.exit(f"make release: {problem}")
    if not _tagged():
        run("git", "tag", "--annotate", f"v{__version__}", "--message", f"rlx {__version__}")
    print(f"v{__version__}: {wheel.name}, {source.name}\nnext: git push --tags, and hand the files of dist/ out")


def unready(changelog: str, version: str) -> str:
    """What the changelog lacks for a release of that version; "" if nothing."""
    heading = re.search(rf"(?m)^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog)
    if not heading:
        return f"CHANGELOG.md has no heading `## [{version}] - YYYY-MM-DD`; fix: give what is under Unreleased that one"
    waiting = changelog[: heading.start()].partition("## [Unreleased]")[2].strip()
    if waiting:
        return f"CHANGELOG.md has entries in no version; fix: raise __version__ in rlx/__init__.py above {version}"
    return ""


def lacking(wheel: Path, source: Path) -> str:
    """What a built wheel or source lacks of what an installed rlx needs; "" if nothing."""
    with zipfile.ZipFile(wheel) as files:
        missing = [name for name in NEEDED if name not in files.namelist()]
    with tarfile.open(source) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    missing += [name for name in ("pyproject.toml", "LICENSE", "README.md", "rlx/__init__.py") if name not in names]
    return f"the built files lack {', '.join(missing)}" if missing else ""


def _uncommitted() -> str:
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.strip()
    return f"there are changes that are not committed:\n{changed}" if changed else ""


def _tagged() -> bool:
    tag = ["git", "rev-parse", "--quiet", "--verify", f"refs/tags/v{__version__}"]
    return subprocess.run(tag, cwd=REPOSITORY, capture_output=True, check=False).returncode == 0


def run(*command: str) -> None:
    subprocess.run(command, cwd=REPOSITORY, check=True)


if __name__ == "__main__":
    main()
