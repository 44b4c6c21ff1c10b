"""Turns GSM8K, as it is published, into what a framework trains on, beside where that will read it.

Source of verl's form: examples/data_preprocess/gsm8k.py; of MindSpeed-RL's: configs/datasets/deepscaler.yaml.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_rows import Refusal, expanded
from gsm8k_source import Table, checked, final_answer, find_sources, notes

Row = dict[str, Any]


@dataclass(frozen=True)
class Gsm8kOrder:
    """`sources`: a folder, or files whose names say train or test. `style`: prompt, messages or mindspeed-rl."""

    sources: list[str]
    to: str
    style: str = "prompt"
    instruction: str = ""
    tokenizer: str = ""
    force: bool = False


def main(fields: dict[str, Any]) -> dict[str, Any]:
    """Answers with `files` (path, split, rows, written) and `notes`, or with `problem`, `detail` and bad `rows`."""
    order = Gsm8kOrder(**fields)
    try:
        return converted(order)
    except Refusal as refusal:
        return refusal.answer
    except ModuleNotFoundError as missing:
        return {"problem": "packages", "detail": f"{missing.name}, which {sys.executable} lacks"}
    except OSError as problem:
        return {"problem": "failed", "detail": f"{problem.filename or order.to}: {problem.strerror}"}


def converted(order: Gsm8kOrder) -> dict[str, Any]:
    sources = find_sources([expanded(path) for path in order.sources])
    tables = {split: checked(path) for split, path in sources.items()}
    targets = list(outputs(order, tables))
    refuse_sources(targets, sources)
    if not order.force:
        refuse_others(targets)
    return {"files": [stored(target) for target in targets], "notes": list(notes(tables))}


@dataclass(frozen=True)
class Output:
    """One file: how it is written, and whether a file that is there holds the same. No `rows`: settings."""

    path: Path
    split: str
    rows: int
    write: Callable[[Path], None]
    is_same: Callable[[Path], bool]


def outputs(order: Gsm8kOrder, tables: dict[str, Table]) -> Iterator[Output]:
    folder = expanded(order.to)
    for split, table in tables.items():
        if order.style == "mindspeed-rl":
            rows = [{"question": question, "answer": final_answer(answer)} for question, answer in table]
            yield text_output(folder / f"{split}.jsonl", split, len(rows), jsonl(rows))
        else:
            rows = [chat_row(order, split, index, *pair) for index, pair in enumerate(table)]
            ending = "_chat.parquet" if order.style == "messages" else ".parquet"
            yield parquet_output(folder / f"{split}{ending}", split, rows)
    if order.style == "mindspeed-rl" and "train" in tables:
        yield text_output(folder / "gsm8k.yaml", "train", 0, dataset_config(order, folder))


def chat_row(order: Gsm8kOrder, split: str, index: int, question: str, answer: str) -> Row:
    """verl's row. The form `messages` has its prompt in that column, and the whole answer beside it."""
    asked = f"{question} {order.instruction}" if order.instruction else question
    prompt = [{"role": "user", "content": asked}]
    row = {
        "data_source": "openai/gsm8k",
        "prompt": prompt,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": final_answer(answer)},
        "extra_info": {"split": split, "index": index, "answer": answer, "question": question},
    }
    if order.style == "messages":
        row = {"messages": row.pop("prompt"), "answer": answer, **row}
    return row


def dataset_config(order: Gsm8kOrder, folder: Path) -> str:
    """For `cli/preprocess_data.py gsm8k`, once it is in configs/datasets/ of MindSpeed-RL."""
    settings = {
        "input": str(folder / "train.jsonl"),
        "tokenizer_name_or_path": order.tokenizer,
        "output_prefix": str(folder / "data"),
        "handler_name": "R1AlpacaStyleInstructionHandler",
        "tokenizer_type": "HuggingFaceTokenizer",
        "workers": 8,
        "log_interval": 1000,
        "prompt_type": "qwen_r1",
        "map_keys": {"prompt": "question", "query": "", "response": "answer", "system": ""},
        "dataset_additional_keys": ["labels"],
    }
    # JSON is YAML, and needs no library.
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())


def jsonl(rows: list[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def text_output(path: Path, split: str, rows: int, text: str) -> Output:
    content = text.encode()
    return Output(path, split, rows, lambda file: write_bytes(file, content), lambda file: file.read_bytes() == content)


def write_bytes(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def parquet_output(path: Path, split: str, rows: list[Row]) -> Output:
    """Describe a parquet file, compared by rows: another version of pyarrow writes other bytes."""
    import pyarrow
    import pyarrow.parquet

    def write(file: Path) -> None:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)

    def is_same(file: Path) -> bool:
        try:
            return bool(pyarrow.parquet.read_table(file).to_pylist() == rows)
        except (OSError, pyarrow.ArrowException):
            return False

    return Output(path, split, len(rows), write, is_same)


def refuse_sources(targets: list[Output], sources: dict[str, Path]) -> None:
    """Refuse to write over a file that is read, by whatever name, even on request."""
    for target in targets:
        for source in sources.values():
            if target.path.exists() and target.path.samefile(source):
                raise Refusal("sources", f"{target.path}: would be written over the file that is read")


def refuse_others(targets: list[Output]) -> None:
    """Refuse targets with other content before the first is written, so that a refusal changes nothing."""
    for target in targets:
        if os.path.lexists(target.path) and not (target.path.is_file() and target.is_same(target.path)):
            raise Refusal("differs", f"{target.path}: is there already, with other content")


def stored(output: Output) -> dict[str, Any]:
    """Leave a file with the same content alone, so that an interrupted conversion continues."""
    same = output.path.is_file() and output.is_same(output.path)
    if not same:
        replace(output)
    return {"path": str(output.path), "split": output.split, "rows": output.rows, "written": not same}


def replace(output: Output) -> None:
    """Write beside the target and rename, so that half a file is never read."""
    output.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.path.name}-", dir=output.path.parent) as beside:
        built = Path(beside, output.path.name)
        output.write(built)
        with built.open("rb+") as file:
            os.fsync(file.fileno())
        built.replace(output.path)
