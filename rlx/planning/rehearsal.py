"""Derive a smoke test of a recipe for this CPU (`rlx rehearse`): a small recipe, its rows and its gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rlx.backends.registry import optional_part, parts
from rlx.errors import RlxError, UsageError
from rlx.planning.tiny_shapes import TinyModel

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Data

# Rows are chosen among the first ones, so that the whole file is not read.
_LOOKED_AT = 512
# In bytes, which are the tokens of the tiny model.
_LONGEST = 2048
_OF_A_TURN = 16
_STEP = 64


@dataclass(frozen=True, slots=True)
class Change:
    """A dotted key of the recipe with its value, the value of the rehearsal, and the reason."""

    key: str
    recipe: object
    rehearsed: object
    why: str


@dataclass(frozen=True, slots=True)
class NotCovered:
    """A part of the recipe that the rehearsal does not cover, and the reason."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Places:
    """Folders on this machine for the tiny model and the data files."""

    model: str
    data: str

    @property
    def train(self) -> str:
        return f"{self.data}/train.parquet"

    @property
    def val(self) -> str:
        return f"{self.data}/val.parquet"


@dataclass(frozen=True, slots=True)
class RehearsalEngine:
    """The engine that generates: `name` as in `rollout.engine`, and the interpreter that has it.

    `head_dim`: the smallest width of a head for which it has a kernel.
    """

    name: str = "cpu"
    python: str = "python3"
    head_dim: int = 8
    shown: str = "rlx's own rollout on torch"


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of generated rows. `table` takes the prompt's column, "train" or "val", and a number of rows."""

    name: str
    table: Callable[[str, str, int], Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table of pyarrow. `why`: schema and reason of generated rows; empty for rows of the user's own file."""

    table: Any
    why: str = ""

    @property
    def is_own(self) -> bool:
        return not self.why

    @property
    def said(self) -> str:
        return "the shortest of its first rows" if self.is_own else f"rows made up to {self.why}"

    def prompt_tokens(self, prompt_key: str) -> int:
        """Return an upper bound for the longest prompt with a byte-level tokenizer, in steps of 64."""
        longest = max((_size(value) for value in self.table.column(prompt_key).to_pylist()), default=0)
        return -(-longest // _STEP) * _STEP


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A derived recipe: `resolved` is for stock verl on this CPU. `factor`: the divisor of all batch sizes in prompts.

    `files`: content of further files of the run, by their path in the run directory. `rows`: "train" and "val".
    """

    resolved: ResolvedRecipe
    factor: int
    model: TinyModel
    changes: tuple[Change, ...]
    untold: tuple[NotCovered, ...]
    files: Mapping[str, str]
    rows: Mapping[str, Rows]
    engine: RehearsalEngine


def rehearser_of(kind: str) -> ModuleType:
    """Return the back-end's part `rehearsal`. Raises UsageError where it has none."""
    found = optional_part(kind, "rehearsal")
    if found is None:
        able = " and ".join(other for other, _ in parts("rehearsal"))
        raise UsageError(f"backend.kind {kind}: only {able} is rehearsed on a CPU", "rlx validate checks the recipe")
    return found


def rehearsal_of(
    resolved: ResolvedRecipe, places: Places, secrets: tuple[str, ...] = (), engine: RehearsalEngine | None = None
) -> Rehearsal:
    """Derive the small recipe. `secrets`: those of its secrets that are set here. `engine`: by default rlx's rollout.

    Raises UsageError for what its back-end cannot rehearse; RlxError for data that is here and cannot be read.
    """
    made: Rehearsal = rehearser_of(resolved.recipe.backend.kind).rehearsal_of(
        resolved, places, secrets, engine or RehearsalEngine()
    )
    return made


def rows_of(data: Data, role: str, count: int, schema: Schema) -> Rows:
    """Return `count` rows for "train" or "val", repeated where the file has fewer. Raises RlxError without pyarrow."""
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
    """Return the rows with the shortest prompts among the first, in file order; or the reason why there are none."""
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
    """Return the bytes of a chat with its marks, or of the text of any other value."""
    if not isinstance(prompt, Sequence) or isinstance(prompt, str):
        return len(str(prompt).encode()) + _OF_A_TURN
    turns = [str(turn.get("content") if isinstance(turn, dict) else turn) for turn in prompt]
    return sum(len(turn.encode()) + _OF_A_TURN for turn in turns) + _OF_A_TURN
