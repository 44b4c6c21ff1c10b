"""List the recipes that come with rlx, find what a user means by a recipe argument, and start a recipe from a copy.

A copy brings the files that the recipe names, and never overwrites a file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import RlxError, UsageError
from rlx.recipe.fields import NAME_LIMIT, NAME_PATTERN
from rlx.recipe.local_paths import LOCAL_PATHS
from rlx.recipe.source import STDIN, read_source
from rlx.recipe.tree import find
from rlx.recipe.yaml_tree import parse
from rlx.resources import recipes_folder

_ENDINGS = (".yaml", ".yml")
_DEFAULT_NAME = "recipe.yaml"


@dataclass(frozen=True, slots=True)
class BundledRecipe:
    """A recipe that comes with rlx. `name` is what a user types; `description`: the comment on top of the file."""

    name: str
    path: Path
    description: str


def bundled_recipes() -> tuple[BundledRecipe, ...]:
    paths = sorted(recipes_folder().glob("*.yaml"))
    return tuple(BundledRecipe(path.stem, path, _description(read_source(path).text)) for path in paths)


def find_recipe(argument: Path | str) -> Path | str:
    """Return the file that the user means: a path, the name of a bundled recipe, or `-` for standard input.

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
    """Return the comment at the top, as one line."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return " ".join(line for line in lines if line)


def start_recipe(source: str, target: Path) -> tuple[Path, ...]:
    """Copy the bundled recipe `source` to `target`, a file or an existing folder, under the name of the target.

    Returns the written files, the recipe first. Raises UsageError for an unknown source or a target that exists.
    """
    origin = _bundled(source)
    target = target / _DEFAULT_NAME if target.is_dir() else target
    text = read_source(origin).text
    if (
        target.stem != Path(_DEFAULT_NAME).stem
        and len(target.stem) <= NAME_LIMIT
        and re.fullmatch(NAME_PATTERN, target.stem)
    ):
        text = re.sub(r"(?m)^name: .*$", f'name: "{target.stem}"', text, count=1)
    files = {target: text}
    for relative in _companions(origin):
        files[target.parent / relative] = (origin.parent / relative).read_text(encoding="utf-8")
    return write_new(files)


def _bundled(name: str) -> Path:
    bundled = {recipe.name: recipe.path for recipe in bundled_recipes()}
    if name in bundled:
        return bundled[name]
    near = difflib.get_close_matches(name, bundled, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(bundled)}"
    raise UsageError(f"--from {name}: no such recipe comes with rlx", hint)


def _companions(recipe: Path) -> Iterator[Path]:
    """Yield the files that a recipe names relative to itself, and those that these name in turn."""
    tree, _ = parse(read_source(recipe))
    for key_path in (("extends",), *LOCAL_PATHS):
        named = find(tree, key_path)
        if named is None or not isinstance(named.value, str):
            continue
        yield Path(named.value)
        if key_path == ("extends",):
            further = _companions(recipe.parent / named.value)
            yield from (Path(named.value).parent / path for path in further)


def write_new(files: Mapping[Path, str]) -> tuple[Path, ...]:
    """Write the files that do not exist yet. One that exists with the same content counts as written."""
    for path, text in files.items():
        if path.exists() and (path == next(iter(files)) or path.read_bytes() != text.encode()):
            raise UsageError(f"{path}: exists already, nothing was written", "name another file, or move this one")
    for path, text in files.items():
        _write(path, text)
    return tuple(files)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write_whole(path, text)
    except OSError as error:
        raise RlxError(
            f"{path}: cannot be written: {error.strerror}", "choose a folder that you may write to"
        ) from None


def _write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all: half of a recipe on a full disk would make the next attempt fail."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink()
            raise
