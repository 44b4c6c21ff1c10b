"""The rows of a rehearsal: a few of the user's own where the file is readable here, else rows made up to the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.recipe.schema import Data

# Rows are chosen among the first ones: nobody waits for a whole file.
_LOOKED_AT = 512
# In bytes, which are the tokens of the tiny model.
_LONGEST = 2048
_OF_A_TURN = 16
_STEP = 64


@dataclass(frozen=True, slots=True)
class Schema:
    """Of which rows are made up. `table` takes the prompt's column, "train" or "val" and a number of rows."""

    name: str
    table: Callable[[str, str, int], Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table of pyarrow. `why` the rows are made up, and to which schema; empty for rows of the user's own file."""

    table: Any
    why: str = ""

    @property
    def is_own(self) -> bool:
        return not self.why

    @property
    def said(self) -> str:
        return "the shortest of its first rows" if self.is_own else f"rows made up to {self.why}"

    def prompt_tokens(self, prompt_key: str) -> int:
        """An upper bound for the longest prompt with a byte-level tokenizer, in steps of 64."""
        longest = max((_size(value) for value in self.table.column(prompt_key).to_pylist()), default=0)
        return -(-longest // _STEP) * _STEP


def rows_of(data: Data, role: str, count: int, schema: Schema) -> Rows:
    """`count` rows for "train" or "val", repeated where the file has fewer. Raises RlxError without pyarrow."""
    path = Path(getattr(data, role)).expanduser()
    reason = _unreadable(path)
    if not reason:
        own = _own_rows(path, data.prompt_key, count)
        if not isinstance(own, str):
            return Rows(own)
        reason = own
    return Rows(schema.table(data.prompt_key, role, count), f"{schema.name}: {reason}")


def write(rows: Rows, path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(rows.table, path)


def _unreadable(path: Path) -> str:
    if not path.is_file():
        return "the file is not on this machine"
    return "" if path.suffix == ".parquet" else "only parquet files are read here"


def _own_rows(path: Path, prompt_key: str, count: int) -> Any:
    """The rows with the shortest prompts among the first ones, in the order of the file; or why there are none."""
    import pyarrow

    try:
        table = _first_rows(path)
    except (pyarrow.ArrowException, OSError) as problem:
        raise RlxError(f"{path}: no parquet file ({problem})", "make it again, or name another: rlx data") from None
    if prompt_key not in table.column_names:
        raise RlxError(
            f"{path}: has no column {prompt_key}, only {', '.join(table.column_names)}",
            "name it in data.prompt_key: rlx data check",
        )
    sizes = [_size(value) for value in table.column(prompt_key).to_pylist()]
    short = [row for row, size in enumerate(sizes) if size <= _LONGEST]
    if not short:
        return f"none of the first {len(sizes)} prompts is shorter than {_LONGEST} bytes"
    chosen = sorted(sorted(short, key=lambda row: sizes[row])[:count])
    return table.take([chosen[number % len(chosen)] for number in range(count)])


def _first_rows(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        batch = next(file.iter_batches(batch_size=_LOOKED_AT), None)
        return pyarrow.Table.from_batches([batch] if batch else [], file.schema_arrow)


def _size(prompt: Any) -> int:
    """Bytes of a chat with its marks; of anything else, of how it is written."""
    if not isinstance(prompt, Sequence) or isinstance(prompt, str):
        return len(str(prompt).encode()) + _OF_A_TURN
    turns = [str(turn.get("content") if isinstance(turn, dict) else turn) for turn in prompt]
    return sum(len(turn.encode()) + _OF_A_TURN for turn in turns) + _OF_A_TURN
