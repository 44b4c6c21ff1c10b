"""Cut a release: number, changelog, commit, tag, and the files for an index in dist/, each looked at. Nothing is sent.

    make release VERSION=0.3.0

It stops before it changes anything where the number is no later one, the tree has changes, or nothing is unreleased.
"""

from __future__ import annotations

import argparse
import email
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

_HEAD = "## [Unreleased]\n"
_NUMBER = re.compile(r'(?m)^__version__ = "([\d.]+)"$')
# What an installed rlx reads of itself.
_RIDES_ALONG = ("rlx/py.typed", "rlx/_data/recipes/starter.yaml", "rlx/findings/host.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version")
    release(Path.cwd(), parser.parse_args().version)


def release(folder: Path, version: str) -> None:
    """Cut a release of the checkout in `folder`. Exits with what is wrong and the fix."""
    module, changelog = folder / "rlx/__init__.py", folder / "CHANGELOG.md"
    text, log = module.read_text(encoding="utf-8"), changelog.read_text(encoding="utf-8")
    current = _NUMBER.search(text)
    assert current is not None, f"{module} has no __version__"
    _check_number(version, current[1])
    if changed := _git(folder, "status", "--porcelain"):
        sys.exit(f"release: not committed: {', '.join(changed.split()[1::2])}\n  fix: commit it, or put it away")
    module.write_text(text.replace(current[0], f'__version__ = "{version}"'), encoding="utf-8")
    changelog.write_text(released(log, version, f"{datetime.now(UTC):%Y-%m-%d}"), encoding="utf-8")
    files = build(folder, version)
    _git(folder, "commit", "--quiet", "--all", "--message", f"Release {version}")
    _git(folder, "tag", "--annotate", "--message", f"rlx {version}", f"v{version}")
    print(f"rlx {version}: commit and tag v{version}; {', '.join(str(file.relative_to(folder)) for file in files)}")


def released(changelog: str, version: str, day: str) -> str:
    """Put what is unreleased under the version. Exits where nothing is."""
    entries = changelog.partition(_HEAD)[2].partition("\n## ")[0]
    if not re.search(r"(?m)^- ", entries):
        sys.exit("release: CHANGELOG.md has nothing under Unreleased\n  fix: say there what a user notices")
    return changelog.replace(_HEAD, f"{_HEAD}\n## [{version}] - {day}\n", 1)


def build(folder: Path, version: str) -> list[Path]:
    """Build sdist and wheel, and look into both. Exits with what they lack."""
    place = folder / "dist"
    hatchling = [sys.executable, "-m", "hatchling", "build", "--directory", str(place)]
    subprocess.run(hatchling, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wheel, sdist = place / f"rlx_evidence-{version}-py3-none-any.whl", place / f"rlx_evidence-{version}.tar.gz"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = email.message_from_bytes(archive.read(f"rlx_evidence-{version}.dist-info/METADATA"))
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in _RIDES_ALONG if name not in names]
    missing += [name for name in ("LICENSE", "CHANGELOG.md", "pyproject.toml") if name not in inside]
    if missing or about["Version"] != version or not about.get_payload():
        sys.exit(f"release: {wheel.name} or {sdist.name} lacks {', '.join(missing) or 'its number or its description'}")
    _check_it_starts(wheel, version)
    return [sdist, wheel]


def _check_it_starts(wheel: Path, version: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", scratch, wheel]
        subprocess.run(pip, check=True)
        program = f"import sys; sys.path.insert(0, {scratch!r}); from rlx.__main__ import main; main()"
        said = subprocess.run(
            [sys.executable, "-I", "-c", program, "--version"],
            capture_output=True,
            text=True,
            check=False,
            encoding="utf-8",
        )
    if said.returncode or version not in said.stdout:
        sys.exit(f"release: the wheel does not say its version: {said.stdout}{said.stderr}")


def _check_number(version: str, current: str) -> None:
    numbers = [
        [int(part) for part in text.split(".")] for text in (version, current) if re.fullmatch(r"\d+(\.\d+){2}", text)
    ]
    if len(numbers) < 2 or numbers[0] <= numbers[1]:
        sys.exit(f"release: {version!r} is no number after {current}\n  fix: make release VERSION=MAJOR.MINOR.PATCH")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    if done.returncode:
        sys.exit(f"release: git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
