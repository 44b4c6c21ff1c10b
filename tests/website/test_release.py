"""A release says what it lacks before it builds anything."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

from website.release import NEEDED, lacking, unready

HEAD = "# Changelog\n\n## [Unreleased]\n\n"


def test_the_changelog_is_held_against_the_version() -> None:
    assert "no heading `## [0.3.0]" in unready(HEAD + "## [0.2.0] - 2026-11-22\n", "0.3.0")
    assert "entries in no version" in unready(HEAD + "### Added\n\n- x\n\n## [0.2.0] - 2026-11-22\n", "0.2.0")
    assert unready(HEAD + "## [0.2.0] - 2026-11-22\n\n- x\n", "0.2.0") == ""


def test_what_is_built_is_held_against_what_an_installation_needs(tmp_path: Path) -> None:
    wheel, source = tmp_path / "a.whl", tmp_path / "a.tar.gz"
    with zipfile.ZipFile(wheel, "w") as files:
        for name in NEEDED[1:]:
            files.writestr(name, "")
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        (tmp_path / name).touch()
    with tarfile.open(source, "w:gz") as files:
        for name in ("pyproject.toml", "LICENSE", "README.md"):
            files.add(tmp_path / name, f"rlx_evidence-0.2.0/{name}")
    assert lacking(wheel, source) == "the built files lack rlx/py.typed, rlx/__init__.py"
