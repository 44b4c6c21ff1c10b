"""Distributions as pip leaves them, with nothing but entry points."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, group: str, points: str) -> None:
    """Put a distribution with these entry points (`NAME = PACKAGE` a line) into a folder of the path."""
    info = folder / "plug_in-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{points}", encoding="utf-8")
