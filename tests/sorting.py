"""Sort the tests for `make check`, `make test` and `make test-engines`, and count them.

The fixtures of a test tell what it needs, so nobody has to remember a mark. The order is pytest-randomly's, but what
takes longest starts first, because a worker that begins it last keeps all others waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_TRAININGS = Path(__file__).with_name("training")
# Lowest first: what takes longest.
_RANKS = ("training", "ray", "hosts")
_FIXTURES = {
    "demo": {"demo"},
    "ray": {"real_ray"},
    "hosts": {"new_rig", "rig_switch", "running_engine", "loopback"},
}
COLLECTED = pytest.StashKey[int]()
_PER_RUN = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_PER_RUN] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark, group and order the tests before `-m` leaves some out."""
    config.stash[COLLECTED] = len(items)
    for item in items:
        for mark in _marks(item):
            item.add_marker(mark)
    items.sort(key=_rank)


def _marks(item: pytest.Item) -> Iterator[pytest.MarkDecorator]:
    needed = set(getattr(item, "fixturenames", ()))
    yield from (getattr(pytest.mark, name) for name, fixtures in _FIXTURES.items() if needed & fixtures)
    if _TRAININGS in item.path.parents:
        yield pytest.mark.training
    if "demo" in needed:
        yield pytest.mark.xdist_group("demo")
    elif _shares_with_its_module(item):
        yield pytest.mark.xdist_group(item.path.stem)


def _shares_with_its_module(item: pytest.Item) -> bool:
    """Tell whether the worker that runs this test should run the module's others too, to set up once."""
    information: Any = getattr(item, "_fixtureinfo", None)
    definitions = information.name2fixturedefs.values() if information else ()
    return any(definition.scope == "module" for found in definitions for definition in found)


def _rank(item: pytest.Item) -> int:
    return next((i for i, name in enumerate(_RANKS) if item.get_closest_marker(name)), len(_RANKS))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the numbers of an xdist worker to the process that prints them."""
    numbers = {"collected": session.config.stash.get(COLLECTED, 0), "selected": len(getattr(session, "items", ()))}
    session.config.stash[_PER_RUN] = session.config.stash[_PER_RUN] or numbers
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["numbers"] = numbers


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_PER_RUN] = getattr(node, "workeroutput", {}).get("numbers") or node.config.stash[_PER_RUN]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    numbers = terminalreporter.config.stash[_PER_RUN]
    if numbers:
        terminalreporter.write_line(f"{numbers['collected']} tests collected, {numbers['selected']} of them selected")
