"""The rooms import one way, and what the documents point to is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "benchmarks/README.md"]
)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)\s]+)\)")
NAMED_PATH = re.compile(r"`((?:rlx|recipes|templates|tests|benchmarks|docs)/[\w./-]*)`")
FINDING = re.compile(r"RLX\d{3}")


def test_rooms_import_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), f"{document.name} links to {target}"
        assert not heading or heading in anchors(file), f"{document.name} links to {target}"


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives to the headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_named_paths_exist(document: Path) -> None:
    for name in NAMED_PATH.findall(document.read_text(encoding="utf-8")):
        assert (REPOSITORY / name).exists(), f"{document.name} names {name}"


def test_every_finding_has_its_row_and_every_row_its_finding() -> None:
    page = (REPOSITORY / "docs" / "verdicts.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| (RLX\d{3}) \|", page, re.MULTILINE)) == findings_in_code()


def findings_in_code() -> set[str]:
    """Ids in string constants of the code, docstrings left out."""
    found: set[str] = set()
    for path in (REPOSITORY / "rlx").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        found.update(text for text in constants if isinstance(text, str) and FINDING.fullmatch(text))
    return found
