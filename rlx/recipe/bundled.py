"""The recipes that come with rlx: their names, and finding what the user means by a recipe argument."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import UsageError
from rlx.recipe.source import STDIN, read_source
from rlx.resources import recipes_folder

_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class BundledRecipe:
    """A recipe that comes with rlx. `name` is what one types; `description`: the comment on top of the file."""

    name: str
    path: Path
    description: str


def bundled_recipes() -> tuple[BundledRecipe, ...]:
    paths = sorted(recipes_folder().glob("*.yaml"))
    return tuple(BundledRecipe(path.stem, path, _description(read_source(path).text)) for path in paths)


def find_recipe(argument: Path | str) -> Path | str:
    """The file that the user means: a path, the name of a bundled recipe, or `-` for standard input.

    Raises UsageError with similar names for anything else.
    """
    if str(argument) == STDIN or _exists(Path(argument)):
        return argument
    bundled = {recipe.stem: recipe for recipe in recipes_folder().glob("*.yaml")}
    if found := bundled.get(str(argument)):
        return found
    near = _near_names(Path(argument), list(bundled))
    hint = f"did you mean {' or '.join(near)}?" if near else "`rlx recipes` lists the ones that come with rlx"
    raise UsageError(f"{argument}: there is no such file, and no such recipe comes with rlx", hint)


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (OSError, ValueError) as error:
        # Anything but "not there" is for the reader to report in its own words.
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


def _near_names(path: Path, bundled: list[str]) -> list[str]:
    beside = sorted(child.name for child in _children(path.parent) if child.suffix in _ENDINGS)
    near = difflib.get_close_matches(path.name, beside, n=2)
    return [str(path.parent / name) for name in near] or difflib.get_close_matches(path.stem, bundled, n=2, cutoff=0.4)


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _description(text: str) -> str:
    """The comment at the top, as one line."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return " ".join(line for line in lines if line)
