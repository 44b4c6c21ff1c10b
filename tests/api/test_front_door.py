"""`import rlx`: what it exports, that it costs nothing, and that packages of the same names do not get in the way."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import rlx
from tests.conftest import REPOSITORY

FUNCTIONS = {
    *("load_recipe", "validate", "explain", "plan", "noise_schedule", "norm_weights", "layouts", "migrate", "rehearse"),
    *(
        "launch",
        "find_runs",
        "status",
        "wait",
        "logs",
        "metrics",
        "stop",
        "retry",
        "pull",
        "waive",
        "unwaive",
        "adopt",
        "import_logs",
    ),
    *("judge", "diagnose", "compare", "experiments", "report", "read_log", "plan_script", "plan_sweep", "power"),
    *("bundle", "judge_bundle", "export", "recipe_from", "remove", "restore", "prune", "queue", "start_container"),
}


def test_what_is_exported() -> None:
    assert set(rlx.__all__) == {*FUNCTIONS, "ExitCode", "NoSuchRun", "RlxError", "UsageError", "__version__"}
    assert set(rlx.__all__) <= set(dir(rlx))
    for name in rlx.__all__:
        getattr(rlx, name)
    assert rlx.__version__ == "0.2.0"


def test_what_is_not_exported_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = rlx.nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_says_what_it_raises_and_has_types(name: str) -> None:
    function = getattr(rlx, name)
    assert "Raises" in (function.__doc__ or "") or "Never raises" in (function.__doc__ or "")
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values())


@pytest.mark.parametrize("name", ["compare", "report"])
def test_a_function_and_a_package_of_one_name(name: str) -> None:
    """Whichever is used first, attribute access gives the function and an import the package."""
    package = import_module(f"rlx.{name}")
    assert package.__path__
    assert inspect.isfunction(getattr(rlx, name))
    program = f"import rlx.{name}, rlx; from rlx.{name} import __path__; print(callable(rlx.{name}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout == "True\n"


def test_types_reach_those_who_use_rlx(tmp_path: Path) -> None:
    assert (REPOSITORY / "rlx/py.typed").exists()
    (tmp_path / "script.py").write_text(
        "import rlx\nfrom rlx.model import LaunchPlan\n"
        "reveal_type(rlx.compare('a', 'b').sentences)\nreveal_type(rlx.plan('r').plans)\nrlx.judge(3)\n",
        encoding="utf-8",
    )
    mypy = [sys.executable, "-m", "mypy", "--no-error-summary", "script.py", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True, check=False, encoding="utf-8")
    assert 'Revealed type is "tuple[str, ...]"' in done.stdout.replace("builtins.", "")
    assert "LaunchPlan, ...]" in done.stdout
    assert 'Argument 1 to "judge" has incompatible type "int"' in done.stdout
