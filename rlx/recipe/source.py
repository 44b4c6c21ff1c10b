"""Read the text of a recipe file, and refuse what is not a small text file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import UsageError
from rlx.local_files import program_of, read_bytes, read_stdin
from rlx.recipe.problems import SourceLocation, refusal

SIZE_LIMIT = 1_000_000
STDIN = "-"
_FIRST_LINE = 256
_OTHER_FILES = {
    "bash": "rlx run {path} runs it as it is; rlx init --from {path} makes a recipe of it",
    "python": "rlx run -- python {path} runs it on its host; a recipe is YAML (rlx init)",
    "jupyter": "jupyter nbconvert --to script {path}, then rlx run -- python {stem}.py; a recipe is YAML (rlx init)",
}
"""What to do with a file that something else runs, by its program."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class RecipeSource:
    """The text of a file. `name` is the user's name of it, `folder` is what relative paths in it start from."""

    name: str
    folder: Path
    text: str


def read_source(path: Path | str) -> RecipeSource:
    """Read a file, or standard input for `-`. Raises UsageError for anything that is no UTF-8 text of up to 1 MB."""
    if str(path) == STDIN:
        return RecipeSource("stdin", Path.cwd(), _decode(_taken(lambda: read_stdin(SIZE_LIMIT), "stdin"), "stdin"))
    path = Path(path)
    data = _taken(lambda: read_bytes(path, SIZE_LIMIT), str(path))
    if fix := _OTHER_FILES.get(program := program_of(path.name, data[:_FIRST_LINE].decode(errors="replace"))):
        raise UsageError(f"{path}: is no recipe, but a file for {program}", fix.format(path=path, stem=path.stem))
    return RecipeSource(str(path), path.parent, _decode(data, str(path)))


def is_file(path: Path) -> bool:
    """Return whether there is a readable file; Path.is_file raises for names that are too long."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _taken(read: Callable[[], bytes], name: str) -> bytes:
    try:
        return read()
    except OSError as error:
        hint = "name a recipe file; from a pipe it comes as `-`"
        raise UsageError(f"{name}: cannot be read: {error.strerror}", hint) from None


def _decode(data: bytes, name: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refusal(SourceLocation(name), "is UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = SourceLocation(name, data.count(b"\n", 0, error.start) + 1)
        raise refusal(place, f"byte 0x{data[error.start]:02x} is no UTF-8; save the file as UTF-8") from None
    if control := _CONTROL.search(text):
        place = SourceLocation(name, text.count("\n", 0, control.start()) + 1)
        raise refusal(place, f"contains the control character U+{ord(control[0]):04X}; is it a text file?")
    return text
