"""Try rlx on each Python that it names and that is here: lint, types, tests without verl, and the installed wheel.

    python requirements/pythons.py [3.12 …]

Each has an environment of its own in `.venv-py/`, with the newest packages that `pyproject.toml` allows, without torch,
verl or Ray. Interpreters are those on PATH, else those of pyenv. What is not here is named and left out; the exit code
is 1 if anything failed, or none was here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
ENVIRONMENTS = REPOSITORY / ".venv-py"
QUICK = "not training and not ray and not hosts and not engines"
# Of these, what asks nothing of a verl on this machine.
FOLDERS = ("recipe", "model", "shell_reader", "compare", "report")
FILES = ("backends/test_keys.py", "cli/test_several_seeds.py", "cli/test_help.py", "test_startup.py")
TESTS = [f"tests/{name}" for name in (*FOLDERS, *FILES)]
# Beside the extras: Hydra composes what rlx renders, and tests read that.
EXTRAS, OTHERS = "dev,data", ("hydra-core>=1.3,<2",)
RECIPE = REPOSITORY / "recipes/tiny-cpu.yaml"
_NAMED = "Programming Language :: Python :: "


def main(wanted: Sequence[str]) -> int:
    found = {version: interpreter(version) for version in wanted or named_versions()}
    for version in [version for version, python in found.items() if python is None]:
        print(f"Python {version} is not here: it is left out", flush=True)
    failed = [version for version, python in found.items() if python and not passes(version, python)]
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return int(bool(failed) or not any(found.values()))


def named_versions() -> list[str]:
    """Return the versions that the classifiers name."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [line.removeprefix(_NAMED) for line in project["classifiers"] if line.startswith(_NAMED)]
    return [name for name in names if name[0].isdecimal() and "." in name]


def interpreter(version: str) -> Path | None:
    """Find a Python of that minor version which works: on PATH, else the newest of pyenv."""
    on_path = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    of_pyenv = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda path: int(path.parts[-3].rsplit(".")[-1]))
    candidates = [*([Path(on_path)] if on_path else []), *reversed(of_pyenv)]
    return next(filter(_works, candidates), None)


def _works(python: Path) -> bool:
    """Tell whether it starts, which a shim of pyenv may refuse, and can make environments."""
    return not subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode


def passes(version: str, python: Path) -> bool:
    """Set up the environment of a Python and run all that is tried in it, up to the first failure."""
    print(f"Python {version}: {python}", flush=True)
    folder = ENVIRONMENTS / version
    try:
        set_up(folder, python)
        check(folder / "bin", version)
    except subprocess.CalledProcessError as error:
        print(f"Python {version}: failed with {error.returncode}: {' '.join(map(str, error.cmd))}", flush=True)
        return False
    return True


def set_up(folder: Path, python: Path) -> None:
    """Install the wheel of this tree with its tools; an environment that is there is brought up to date."""
    if not (folder / "bin/python").exists():
        run(python, "-m", "venv", folder)
    pip = (folder / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory() as wheels:
        run(*pip, "wheel", "--no-deps", "--wheel-dir", wheels, REPOSITORY)
        (wheel,) = Path(wheels).iterdir()
        run(*pip, "install", "--upgrade", "--no-compile", f"{wheel}[{EXTRAS}]", *OTHERS)
        run(*pip, "install", "--no-compile", "--no-deps", "--force-reinstall", wheel)


def check(programs: Path, version: str) -> None:
    run(programs / "ruff", "check", ".")
    run(programs / "ruff", "format", "--check", ".")
    run(programs / "mypy", "--python-version", version, "--cache-dir", programs.parent / "mypy-cache")
    run(programs / "python", "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "-m", QUICK, *TESTS)
    with tempfile.TemporaryDirectory() as elsewhere:
        # Not in the tree, whose folder rlx would be imported.
        for words in (
            ("--version",),
            ("validate", REPOSITORY / RECIPE),
            ("plan", REPOSITORY / RECIPE, "--seed", "1", "2"),
        ):
            run(programs / "rlx", *words, at=Path(elsewhere))


def run(*command: str | Path, at: Path = REPOSITORY) -> None:
    """Raises CalledProcessError where it fails."""
    print(f"  {' '.join(map(str, command))}", flush=True)
    subprocess.run(command, cwd=at, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
