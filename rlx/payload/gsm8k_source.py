"""Finds the rows of GSM8K as they are published, and refuses what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_rows import Refusal, read

OFFICIAL_ROWS = {"train": 7473, "test": 1319}
SHOWN_ROWS = 10
PLACES = ("", "main", "data")
SPLIT_WORDS = {"train": "train", "test": "test", "val": "test"}
# As verl's reward finds it, so that what is written can be graded there; a full stop behind it is no part of it.
FINAL_ANSWER = re.compile(r"#### *(-?[0-9][0-9,]*(?:\.[0-9]+)?)")

Table = list[tuple[str, str]]


def find_sources(paths: list[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in paths:
        for split, file in sources_of(path):
            if split in found:
                raise Refusal("sources", f"both {found[split]} and {file} are {split} rows")
            found[split] = file
    return found


def sources_of(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield split_of(path), path
    elif path.is_dir():
        yield from in_folder(path)
    else:
        raise Refusal("sources", f"{path}: there is no such file or folder")


def split_of(file: Path) -> str:
    splits = {split for word, split in SPLIT_WORDS.items() if word in file.name}
    if len(splits) != 1:
        raise Refusal("sources", f"{file}: its name must say which rows these are, train or test")
    return splits.pop()


def in_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    """As published: `train.jsonl` on GitHub, `main/train-00000-of-00001.parquet` on the Hub."""
    for place in PLACES:
        files = [file for split in OFFICIAL_ROWS for file in named(folder / place, split)]
        if files:
            yield from ((split_of(file), file) for file in files)
            return
    raise Refusal("sources", f"{folder}: holds no train.jsonl, train.parquet or main/train-*.parquet")


def named(folder: Path, split: str) -> list[Path]:
    patterns = (f"{split}.jsonl", f"{split}.parquet", f"{split}-*.parquet")
    return sorted(file for pattern in patterns for file in folder.glob(pattern))


def checked(path: Path) -> Table:
    """Question and answer of each row. Refuses the file if a single row is bad, naming the first ones."""
    rows, bad = [], []
    for number, row in read(path):
        if wrong := fault(row):
            bad.append({"row": number, "what": wrong})
        else:
            rows.append((row["question"], row["answer"]))
    if bad:
        raise Refusal("rows", f"{path}: {len(bad)} of {len(bad) + len(rows)} rows", bad=len(bad), rows=bad[:SHOWN_ROWS])
    if not rows:
        raise Refusal("unreadable", f"{path}: holds no rows")
    return rows


def fault(row: Any) -> str:
    """Return what is wrong with a row; empty if nothing is."""
    if not isinstance(row, dict):
        return row if isinstance(row, str) else "no object with question and answer"
    if missing := {"question", "answer"} - row.keys():
        return f"has no {' and no '.join(sorted(missing))}, only {', '.join(sorted(row)) or 'nothing'}"
    for name in ("question", "answer"):
        if not isinstance(row[name], str) or not row[name].strip():
            return f"{name} is {'empty' if isinstance(row[name], str) else 'no text'}"
    if "####" not in row["answer"]:
        return "the answer has no ####"
    return "" if FINAL_ANSWER.search(row["answer"]) else f"no number follows ####: {row['answer'][-40:]!r}"


def final_answer(answer: str) -> str:
    """Return the number after ####, without thousands separators: the only form that verl accepts."""
    found = FINAL_ANSWER.search(answer)
    assert found is not None  # rows without one were refused
    return found[1].replace(",", "")


def notes(tables: dict[str, Table]) -> Iterator[str]:
    for split, rows in tables.items():
        if len(rows) != OFFICIAL_ROWS[split]:
            yield f"{split} has {len(rows):,} rows; the official GSM8K has {OFFICIAL_ROWS[split]:,}"
