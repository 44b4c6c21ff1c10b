"""Read the rows of a data file on its own machine: parquet, jsonl or a JSON array."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Refusal(Exception):
    """Why nothing was done: a word for the caller, and the details."""

    def __init__(self, problem: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.answer = {"problem": problem, "detail": detail, **more}


def expanded(path: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111  # an unknown ~user is no crash


def read(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield number and content: the line of a jsonl file, else the row, from 1. Text stands for a row that is none.

    Raises Refusal for a file that is not what its name says, ModuleNotFoundError without pyarrow, OSError.
    """
    if path.suffix == ".parquet":
        return enumerate(table_of(path).to_pylist(), start=1)
    return read_array(path) if path.suffix == ".json" else read_lines(path)


def table_of(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        # A file object: OSError of a path has no errno.
        with path.open("rb") as file:
            return pyarrow.parquet.read_table(file)
    except pyarrow.ArrowException as problem:
        raise Refusal("unreadable", f"{path}: no parquet file ({problem})") from None


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    # Not by splitlines: U+2028 in a text is no end of a line of JSON.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as problem:
                yield number, f"no JSON ({problem})"


def read_array(path: Path) -> Iterator[tuple[int, Any]]:
    """Read a JSON array, or a `.json` file with one object per line, which is as common."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return read_lines(path)
    return enumerate(document if isinstance(document, list) else [document], start=1)
