"""Hold the house to its own rules: imports, names, docstrings, and what the documents point to."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from grimp import build_graph

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "rlx"
WHOLE = [REPOSITORY / name for name in ("rlx", "website", "benchmarks", "tests")]
# Files that stand for those of users.
CASES = REPOSITORY / "tests/cases"
DOCUMENTS = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *map(REPOSITORY.joinpath, ("benchmarks/README.md", "llms.txt")),
    ]
)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)\s]+)\)")
NAMED_PATH = re.compile(r"`((?:rlx|recipes|templates|tests|benchmarks|docs)/[\w./-]*)`")
# A door and the use case behind it have one name on purpose.
DOORS = ("cli", "api")
# Below a back-end, and among the rules, a module is named by what it is about; the folder says what it does about it.
ABOUT = re.compile(r"backends/\w+/|schedulers/\w+/|planning/rules/")
SAME_ON_PURPOSE = {
    "host": "the entry of a host, and the part of a back-end that says what it wants of one",
    "protocol": "what the folders of back-ends and those of schedulers must hold",
    "registry": "the names of back-ends, and those of schedulers",
}
RIDDLE = re.compile(r"(What|Which|Where|Why|How|Whether|Who|Nothing|Not)\b")


def test_rooms_import_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), f"{document.name} links to {target}"
        assert not heading or heading in anchors(file), f"{document.name} links to {target}"


def anchors(document: Path) -> list[str]:
    """The anchors that GitHub gives to the headings, in their order."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_named_paths_exist(document: Path) -> None:
    for name in NAMED_PATH.findall(document.read_text(encoding="utf-8")):
        assert (REPOSITORY / name).exists(), f"{document.name} names {name}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions and those for type checkers count, since a reader has to follow them all.

    The front door alone names for type checkers what it loads when that is asked for.
    """
    modules = build_graph(*(folder.name for folder in WHOLE), cache_dir=None)
    graph = {name: modules.find_modules_directly_imported_by(name) for name in modules.modules}
    graph["rlx"] = set()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("these import each other in a circle: " + " -> ".join(reversed(error.args[1])))


def python_modules(package: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yield every module of a package by its dotted name, a package by the name of its folder."""
    for path in sorted(package.rglob("*.py")):
        if path.is_relative_to(CASES):
            continue
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(path.read_text(encoding="utf-8"))


def test_no_two_modules_of_one_name_mean_different_things() -> None:
    places = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE)
        if name.stem not in {"__init__", *SAME_ON_PURPOSE} and str(name.parent) not in DOORS:
            places[name.stem].add("modules named by their subject" if ABOUT.match(str(name)) else str(name))
    assert {name: sorted(found) for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", SAME_ON_PURPOSE)
def test_names_that_may_be_taken_twice_are_taken_twice(name: str) -> None:
    assert len(list(PACKAGE.rglob(f"{name}.py"))) > 1


def test_docstrings_of_modules_are_no_riddles() -> None:
    """They begin with what the module does or is, since a question makes a reader open the file for the answer."""
    texts = {name: ast.get_docstring(tree) for name, tree in python_modules(PACKAGE)}
    assert [name for name, text in texts.items() if not text] == []
    assert {name: text.splitlines()[0] for name, text in texts.items() if text and RIDDLE.match(text)} == {}


def test_pages_that_code_and_recipes_name_exist() -> None:
    """`rlx explain`, messages and comments name them by path; docs/zh/features/ is that of MindSpeed-RL."""
    files = [
        path for folder in ("rlx", "recipes", "website", "benchmarks") for path in (REPOSITORY / folder).rglob("*")
    ]
    texts = [path for path in files if path.suffix in {".py", ".toml", ".sh", ".yaml", ".j2"}]
    named = {
        (str(path.relative_to(REPOSITORY)), name)
        for path in texts
        for name in re.findall(r"(?<![\w/-])docs/(?!zh/features/)[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [each for each in sorted(named) if not (REPOSITORY / each[1]).exists()] == []
