"""`rlx data`: make the small data sets and models that the shipped recipes name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlx.cli.output import narrate
from rlx.errors import RlxError, UsageError
from rlx.resources import payload_folder

TINY_CPU_FOLDER = Path("~/.cache/rlx/tiny-cpu")
MAKERS = {"tiny-cpu": "tiny_addition.py"}
DIGESTS = "digests.json"


def data(
    name: Annotated[str, typer.Argument(help="What to make: tiny-cpu.")],
    to: Annotated[Path, typer.Option(help="The folder to write; the recipe names the default.")] = TINY_CPU_FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Make it again even if it is complete.")] = False,
) -> None:
    """Make the model and data of a shipped recipe.

    Prints the folder. What is complete already is left alone.
    """
    if name not in MAKERS:
        raise UsageError(f"unknown data set {name!r}", f"known: {', '.join(MAKERS)}")
    maker, folder = payload_folder() / MAKERS[name], to.expanduser().absolute()
    if not force and is_complete(folder, maker):
        narrate(f"{folder} is complete")
    else:
        _make(folder, maker)
    print(folder)


def is_complete(folder: Path, maker: Path) -> bool:
    """Whether the folder holds exactly what this version of the maker wrote there."""
    import json

    marker = folder / DIGESTS
    return marker.is_file() and json.loads(marker.read_text(encoding="utf-8")) == _digests(folder, maker)


def _digests(folder: Path, maker: Path) -> dict[str, str]:
    from hashlib import sha256

    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS)
    named = {path.relative_to(folder).as_posix(): path for path in files} | {"maker": maker}
    return {name: sha256(path.read_bytes()).hexdigest() for name, path in named.items()}


def _make(folder: Path, maker: Path) -> None:
    """Build beside the target and rename, so that the folder is either whole or as it was."""
    import json
    import shutil
    import tempfile

    _require_packages()
    _refuse_foreign(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        built = Path(beside, "new")
        narrate(f"making {folder} (seconds)")
        _run_maker(maker, built)
        digests = json.dumps(_digests(built, maker), indent=1)
        (built / DIGESTS).write_text(digests, encoding="utf-8")
        if folder.exists():
            folder.rename(Path(beside, "old"))
        built.rename(folder)
        shutil.rmtree(Path(beside, "old"), ignore_errors=True)


def _require_packages() -> None:
    from importlib.util import find_spec

    missing = [package for package in ("torch", "transformers", "pyarrow") if find_spec(package) is None]
    if missing:
        raise RlxError(
            f"making a tiny model needs {', '.join(missing)}, which this Python does not have",
            "pip install torch==2.13.0 (a CPU build), then pip install 'rlx[verl-cpu]'",
        )


def _refuse_foreign(folder: Path) -> None:
    """Only what rlx made may be replaced."""
    if folder.exists() and not (folder / DIGESTS).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise RlxError(f"{folder} holds something that rlx did not make", "name an empty or new folder with --to")


def _run_maker(maker: Path, built: Path) -> None:
    import subprocess
    import sys

    # A process of its own: torch must not be imported into rlx, and its output goes to the narration.
    ended = subprocess.run([sys.executable, str(maker), str(built)], stdout=sys.stderr, check=False)
    if ended.returncode != 0:
        raise RlxError(f"{maker.name} ended with {ended.returncode}", "its own message stands above")
