"""The table of checks is whole: every function of the package named check is a row of it, or named here."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from inspect import isfunction
from types import ModuleType

import pytest

from rlx.evidence import checks
from rlx.evidence.checks import check_table
from rlx.evidence.checks.check_input import Basis
from rlx.evidence.checks.check_table import CHECKS

MODULES = [
    importlib.import_module(f"{checks.__name__}.{found.name}") for found in pkgutil.iter_modules(checks.__path__)
]
IN_TABLE = {row.check for row in CHECKS}


def functions(module: ModuleType) -> Iterator[Callable[..., object]]:
    """The functions that a module defines itself."""
    yield from (each for each in vars(module).values() if isfunction(each) and each.__module__ == module.__name__)


def yields_findings(module: ModuleType) -> bool:
    return any("CheckFinding" in str(each.__annotations__.get("return")) for each in functions(module))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_check_has_a_row(module: ModuleType) -> None:
    found = [each for each in functions(module) if each.__name__.startswith("check")]
    for check in found:
        name = f"{module.__name__}.{check.__name__}"
        assert check in IN_TABLE, f"{name} has no row in rlx/evidence/checks/check_table.py"
    if not found and module is not check_table:
        assert not yields_findings(module), f"{module.__name__} yields findings and has no function named check"


@pytest.mark.parametrize("basis", Basis)
def test_no_check_is_made_twice_for_one_run(basis: Basis) -> None:
    made = Counter(row.check for row in CHECKS if basis in row.basis)
    assert made
    assert max(made.values()) == 1
