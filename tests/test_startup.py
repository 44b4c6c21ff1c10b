"""What a command may import before it does anything: help and status must answer at once."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from rlx.hosts import user_file

HEAVY = {
    "paramiko", "docker", "ray", "torch", "numpy", "scipy", "matplotlib", "sqlalchemy", "fastapi", "requests", "jinja2",
}  # fmt: skip
# The schema of recipes costs more than everything else together; only commands that read a recipe pay for it.
RECIPE_ONLY = {"pydantic", "yaml"}
# From 0.29 on Typer itself loads pydantic, for the value of any option; `rlx` can only be quick before.
TYPER = tuple(map(int, version("typer").split(".")[:2]))
UNWANTED = HEAVY | RECIPE_ONLY - ({"pydantic"} if TYPER >= (0, 29) else set())


def imported_by(*arguments: str) -> set[str]:
    """Top-level packages that `python -m rlx ARGUMENTS` imports."""
    command = [sys.executable, "-X", "importtime", "-m", "rlx", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-2000:]
    names = (line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("compare", "--help"), ("status",)], ids=" ".join)
def test_quick_commands_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert sorted(imported_by(*arguments) & UNWANTED) == []


@pytest.mark.long
def test_hosts_in_a_file_cost_status_nothing() -> None:
    user_file().parent.mkdir()
    user_file().write_text("hosts: {a3: {ssh: user@npu-host-1}}", encoding="utf-8")
    imported_by("status")  # the first makes the index, and looks where this machine keeps its runs
    assert sorted(imported_by("status") & UNWANTED) == []
    assert "yaml" in imported_by("hosts")


def test_version_imports_no_command() -> None:
    assert "typer" not in imported_by("--version")


def test_recipe_commands_import_nothing_but_the_schema() -> None:
    found = imported_by("recipes")
    assert sorted(found & HEAVY) == []


def test_the_probe_sees_what_is_imported() -> None:
    assert "pydantic" in imported_by("schema")


def test_import_rlx_imports_nothing() -> None:
    """A function is loaded when it is first used, and with it only what it needs."""

    def modules(program: str) -> set[str]:
        program = f"import sys; before = {{*sys.modules}}; {program}; print(*{{*sys.modules}} - before)"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, encoding="utf-8"
        )
        return set(done.stdout.split())

    assert modules("import rlx") == {"rlx", "__future__"}
    loaded = modules("import rlx; rlx.status; rlx.judge; rlx.compare; rlx.plan")
    assert "rlx.api.status" in loaded
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | RECIPE_ONLY)


def test_interrupted_while_it_loads() -> None:
    program = """
import signal, sys
class Impatient:
    def find_spec(self, name, *_):
        if name == "rlx.cli.frame.app":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Impatient())
sys.argv = ["rlx", "status"]
from rlx.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_only_the_command_that_is_asked_for_is_built() -> None:
    def commands(*arguments: str) -> set[str]:
        program = (
            "import sys; from rlx.cli.frame.app import command_line; command_line(sys.argv[1:]); print(*sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, encoding="utf-8"
        )
        return {"rlx.cli.status", "rlx.cli.launch"} & set(done.stdout.split())

    assert commands("-q", "status", "--help") == {"rlx.cli.status"}
    for all_are_wanted in (["--help", "status"], ["launhc"], []):
        assert commands(*all_are_wanted) == {"rlx.cli.status", "rlx.cli.launch"}
