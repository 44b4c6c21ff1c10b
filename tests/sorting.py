"""Sort the tests into groups (tests/groups.toml), select those of `--group`, order and count them.

The fixtures and the text of a test tell what it needs, so that no mark has to be remembered; `slow` and `contract` are
set by hand. The order is pytest-randomly's, but what takes longest starts first, because a worker that begins it last
keeps all others waiting.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

import pytest
from xdist.scheduler import LoadScopeScheduling

T = TypeVar("T")

_TESTS = Path(__file__).parent
_TRAININGS = _TESTS / "training"
_FIXTURES = {
    "demo": {"demo"},
    "ray": {"real_ray"},
    "hosts": {"new_rig", "rig_switch", "running_engine", "loopback"},
}
# A file with one of these starts runs on this machine, or is about what other machines do.
_ON_HOSTS = ("tests.runs.toys", "tests.runs.laptop")
_HOST_FOLDERS = {"runs", "hosts", "rig"}
# A file with one of these runs verl's own code, in the releases that rlx knows, or rlx as it is installed.
_LOADS_ENGINES = (
    "tests.wheels",
    "tests.planning.verl_configuration",
    "import torch",
    "import transformers",
    "from transformers",
    '"venv"',
)
# A file with one of these sets something up once for several of its tests.
_SETS_UP_ONCE = ('scope="module"', "demo: Laptop")
# A file with one of these starts a Ray, which gives up where several others start at the same time.
_STARTS_RAY = {"start: Start": "ray", "cluster: Cluster": "ray", "rays(": "ray on hosts"}
# Files with a test that takes over 40 s of `make test`: begun at the end, it keeps one worker busy and the others idle.
LONG = (
    "planning/test_one_preflight.py",
    "test_fuzz.py",
    "runs/test_fault_follow.py",
    "runs/test_fault_long_log.py",
    "backends/test_shipped_contract.py",
    "test_packaging.py",
    "runs/test_sweeps.py",
    "runs/test_sweep_shows.py",
    "runs/test_fault_hanging.py",
    "payload/test_tiny_addition.py",
)
_WAITS, _COMPUTES = 3, 4
_UNTIL_THE_END = 0.9
_PER_RUN = pytest.StashKey[dict[str, int]]()
# What keeps a test out of the group `quick`, and what makes it a part of `contracts`.
_NOT_QUICK = {"training", "ray", "hosts", "engines", "slow"}
_IN_CONTRACTS = {"contract", "demo"}
QUICK, CONTRACTS = "quick", "contracts"
GROUPS: dict[str, dict[str, Any]] = tomllib.loads((_TESTS / "groups.toml").read_text(encoding="utf-8"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--group", action="append", default=[], choices=list(GROUPS), help="only the tests of this group")


class _FailuresAtOnce:
    """Name a test when it fails, so that a run of an hour that is interrupted has not lost it."""

    def __init__(self, config: pytest.Config):
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nfailed: {report.nodeid} ({report.when})")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_PER_RUN] = {}
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(config))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, unread, a file that has no test of the groups asked for."""
    groups = config.getoption("group")
    if not groups or collection_path.suffix != ".py" or not collection_path.is_relative_to(_TESTS):
        return None
    return None if any(_may_hold(collection_path, group) for group in groups) else True


def _may_hold(path: Path, group: str) -> bool:
    if group == CONTRACTS:
        return _has(path, ("mark.contract", "demo: Laptop"))
    return _file_marks(path) == [] if group == QUICK else file_group(path) == group


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark, select and order the tests before `-m` leaves some out.

    Raises pytest.UsageError if a whole group has fewer tests than tests/groups.toml says.
    """
    for item in items:
        for mark in _marks(item):
            item.add_marker(mark)
    collected = len(items)
    if groups := config.getoption("group"):
        config.hook.pytest_deselected(items=[item for item in items if not groups_of(item) & set(groups)])
        items[:] = [item for item in items if groups_of(item) & set(groups)]
        if config.args == config.getini("testpaths") and (missing := missing_tests(groups, len(items))):
            raise pytest.UsageError(missing)
    config.stash[_PER_RUN] = {"collected": collected, "selected": len(items)}
    items.sort(key=_rank)
    # Only for xdist, which hands out what shares a set-up as a whole: one process that goes from file to file would set
    # it up again and again.
    if hasattr(config, "workerinput"):
        first, waits, computes = (list(group) for group in _by_kind(items))
        items[:] = [*first, *mixed(waits, computes)]


def missing_tests(groups: Sequence[str], count: int) -> str:
    """Say that these groups have fewer tests than they must have; empty if they have enough."""
    least = sum(GROUPS[group]["at_least"] for group in groups)
    return f"{', '.join(groups)}: {count} tests, and tests/groups.toml expects {least}" if count < least else ""


def _by_kind(items: list[pytest.Item]) -> Iterator[Iterator[pytest.Item]]:
    yield (item for item in items if _rank(item) < _WAITS)
    yield (item for item in items if _rank(item) == _WAITS)
    yield (item for item in items if _rank(item) == _COMPUTES)


def mixed(waits: Sequence[T], computes: Sequence[T]) -> list[T]:
    """What computes between what waits, in the same shares throughout, and alone at the end, where nothing is to wait.

    What waits leaves a third of the processors idle, however many workers do it.
    """
    placed = [(_UNTIL_THE_END * number / len(waits), one) for number, one in enumerate(waits)]
    placed += [(number / len(computes), one) for number, one in enumerate(computes)]
    return [one for _, one in sorted(placed, key=lambda each: each[0])]


def groups_of(item: pytest.Item) -> set[str]:
    """Name the one group of a test, and `contracts` where it is in that too."""
    marks = {mark.name for mark in item.iter_markers()}
    own = file_group(item.path) if marks & _NOT_QUICK else QUICK
    return {own, CONTRACTS} if marks & _IN_CONTRACTS else {own}


@functools.cache
def file_group(path: Path) -> str:
    """Name the group of those tests of a file that are not quick."""
    name = str(path.relative_to(_TESTS)) if path.is_relative_to(_TESTS) else path.name
    return next(group for group, row in GROUPS.items() if any(fnmatch(name, each) for each in row.get("paths", ())))


def _marks(item: pytest.Item) -> Iterator[pytest.MarkDecorator]:
    needed = set(getattr(item, "fixturenames", ()))
    yield from (getattr(pytest.mark, name) for name, fixtures in _FIXTURES.items() if needed & fixtures)
    yield from (getattr(pytest.mark, name) for name in _file_marks(item.path))
    if _TRAININGS in item.path.parents:
        # One set-up may train several runs, and other work on the machine makes them slower.
        yield pytest.mark.timeout(1500)


@functools.cache
def _file_marks(path: Path) -> list[str]:
    """Name the marks of all tests of a file."""
    marks = {
        "training": _TRAININGS in path.parents,
        "hosts": path.parent.name in _HOST_FOLDERS or _has(path, _ON_HOSTS),
        "engines": _has(path, _LOADS_ENGINES),
        "slow": _has(path, ("\npytestmark = pytest.mark.slow\n",)),
    }
    return [name for name, has in marks.items() if has]


def _rank(item: pytest.Item) -> int:
    """Lowest first: several trainings in a row, one training or many Rays, long tests, what waits or is set up once."""
    if item.get_closest_marker("training"):
        return 0 if _shared(item.path) else 1
    if _shared(item.path).startswith("ray"):
        return 1
    if item.path.is_relative_to(_TESTS) and str(item.path.relative_to(_TESTS)) in LONG:
        return 2
    return _WAITS if item.get_closest_marker("hosts") or _shared(item.path) else _COMPUTES


@functools.cache
def _has(path: Path, words: tuple[str, ...]) -> bool:
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in words)


class _OneByOne(LoadScopeScheduling):
    """Hand each worker one test at a time, but at once all that share a set-up and all that start a Ray."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return _shared(self.config.rootpath / path) or nodeid


@functools.cache
def _shared(path: Path) -> str:
    """Name what the tests of a file have in common; empty if each stands alone."""
    text = path.read_text(encoding="utf-8")
    ray = next((name for words, name in _STARTS_RAY.items() if words in text), "")
    return ray or (str(path) if any(words in text for words in _SETS_UP_ONCE) else "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _OneByOne | None:
    return _OneByOne(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the numbers of an xdist worker to the process that prints them."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["numbers"] = session.config.stash[_PER_RUN]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_PER_RUN] = getattr(node, "workeroutput", {}).get("numbers") or node.config.stash[_PER_RUN]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    numbers = terminalreporter.config.stash[_PER_RUN]
    if numbers:
        terminalreporter.write_line(f"{numbers['collected']} tests collected, {numbers['selected']} of them selected")
