"""Write the pictures that rlx draws, as .svg or .png by the name of the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.derived_files import check_target, made_by, replace_file
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.report import Scene

_SUFFIXES = (".png", ".svg")


def check_picture(path: str) -> None:
    """Check, before any host is asked, that this can be drawn. Raises UsageError or RlxError."""
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--plot {path}: rlx draws .png and .svg", "name such a file, or - for the terminal")
    check_target(Path(path))


def write_scene(path: str, drawing: Scene) -> None:
    """Write the drawing; a picture of rlx that lies there is replaced."""
    from rlx.report import png_bytes, svg_file

    write = svg_file if Path(path).suffix.lower() == ".svg" else png_bytes
    replace_file(Path(path), write(drawing, made_by()))
