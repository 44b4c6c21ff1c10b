"""A release is cut from a checkout: number, changelog, commit, tag, and files that say their number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx import __version__
from tests.conftest import REPOSITORY
from tests.wording import settled

pytestmark = pytest.mark.slow

SCRIPT = REPOSITORY / "requirements/release.py"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, encoding="utf-8")
    return done.stdout


def release(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, version], cwd=folder, capture_output=True, text=True, check=False, encoding="utf-8"
    )


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.org")
    folder = tmp_path / "checkout"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{REPOSITORY}", str(folder))
    changelog = folder / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    changelog.write_text(text.replace("## [Unreleased]\n", "## [Unreleased]\n\n- Said here.\n", 1), encoding="utf-8")
    git(folder, "commit", "--quiet", "--all", "--message", "Said")
    return folder


def test_a_release_is_one_commit_one_tag_and_two_files(checkout: Path, wording: SnapshotAssertion) -> None:
    done = release(checkout, "9.0.0")
    assert done.returncode == 0, done.stderr
    assert git(checkout, "tag", "--points-at", "HEAD") == "v9.0.0\n"
    assert set(git(checkout, "show", "--format=", "--name-only").split()) == {"CHANGELOG.md", "rlx/__init__.py"}
    log = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    assert log.index("## [Unreleased]") < log.index("## [9.0.0] - ") < log.index("- Said here.")
    assert {file.suffix for file in (checkout / "dist").glob("rlx_evidence-9.0.0*")} == {".whl", ".gz"}
    assert git(checkout, "status", "--porcelain") == ""
    again = release(checkout, "9.0.1")
    assert again.returncode == 1 and again.stderr == wording


def test_what_is_no_release_changes_nothing(checkout: Path, wording: SnapshotAssertion) -> None:
    for version in ("0.0.1", "next"):
        refused = release(checkout, version)
        assert refused.returncode == 1 and settled(refused.stderr, {__version__: "version"}) == wording(name=version)
    (checkout / "README.md").write_text("half written", encoding="utf-8")
    assert "README.md" in release(checkout, "9.0.0").stderr
    assert git(checkout, "tag", "--points-at", "HEAD") == ""
