"""verl and megatron-core as released: the installed one, and wheels that are downloaded once and kept.

What is in development has no wheel: its tests read the checkout that RLX_VERL_MAIN names, and are skipped without one.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

INSTALLED = "0.9.1"
DEVELOPMENT = "0.10.0.dev"


def verl_folder(version: str) -> Path:
    """The folder of the package `verl` of that version. Skips the test where the wheel cannot be had."""
    if version == INSTALLED:
        spec = importlib.util.find_spec("verl")
        assert spec is not None and spec.origin is not None, f"verl {INSTALLED} is part of the test environment"
        return Path(spec.origin).parent
    if version == DEVELOPMENT:
        return _checkout()
    return wheel_folder("verl", version) / "verl"


def _checkout() -> Path:
    """Find the package in a checkout of verl's main at 1dda039b, of which the key table is."""
    if not (checkout := os.environ.get("RLX_VERL_MAIN")):
        pytest.skip("RLX_VERL_MAIN names no checkout of verl's main")
    return Path(checkout, "verl")


def wheel_folder(package: str, version: str) -> Path:
    """The folder with a wheel's files, none of them installed. Skips the test where the wheel cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlx-tests"
    folder = cache / f"{package}-wheel-{version}"
    if not folder.is_dir():
        _download(package, version, folder)
    return folder


def _download(package: str, version: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Two test processes may do this at once: each unpacks for itself, and one of them wins the rename.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--quiet",
            "--dest",
            scratch,
        ]
        done = subprocess.run(
            [*pip, f"{package}=={version}"], capture_output=True, text=True, check=False, encoding="utf-8"
        )
        if done.returncode:
            pytest.skip(f"pip cannot download {package} {version}: {done.stderr.strip().splitlines()[-1:]}")
        unpacked = Path(scratch, "unpacked")
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            wheel.extractall(unpacked)
        if not folder.is_dir():
            unpacked.rename(folder)
