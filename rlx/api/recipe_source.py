"""Find the launch in what a person names for a recipe to come: a script, a line, a configuration, a log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rlx.api.imported_recipe import keys_part
from rlx.api.script_secrets import Secrets
from rlx.api.users_launch import SEARCH_PATH, FoundLaunch, find_launch
from rlx.backends.registry import parts
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.backends.shared.users_launches import KeysPart

_MOST_BYTES = 4 << 20
_CONFIGURATIONS = (".yaml", ".yml")
_LOGS = (".log", ".out", ".txt")
_LINE = re.compile(
    r"\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:ray\s+job\s+submit|(?:\S*[/}])?python[\d.]*|nohup|torchrun|bash\s+-c|srun"
    r"|(?:uv|poetry|pixi|conda|mamba|micromamba|pdm|pipenv)\s+run|accelerate\s+launch"
    r"|(?:docker|podman|singularity|apptainer)\s+(?:exec|run)|nsys\s+profile|msprof)\s"
)
_MOST_DEPTH = 40
_FORMS = "a bash script, a line that starts a training, its configuration as YAML, or a log that shows it"
_KNOWN = re.compile(r"\.(?:sh|bash|ya?ml|log|out|txt|conf|cfg|py)", re.IGNORECASE)


def is_launch(source: str) -> bool:
    """Tell whether the word names a launch, and no recipe that comes with rlx."""
    return _is_line(source) or "/" in source or source == "-" or _KNOWN.fullmatch(Path(source).suffix) is not None


def launch_of(source: str) -> FoundLaunch:
    """The launch that is named by a path, `-` for standard input, or in full. Raises UsageError without one."""
    from rlx.evidence.reading.foreign_config import printed_config, read_printed_config

    if Path(source).suffix in _LOGS and (printed := read_printed_config(Path(source))):
        return _of_printed(printed)
    text, name = (source, "the line") if _is_line(source) else (_read(source), source)
    if not text.strip():
        raise UsageError(f"--from {name}: is empty", f"name {_FORMS}")
    if Path(name).suffix in _CONFIGURATIONS:
        return _of_configuration(text, name)
    if printed := printed_config(text):
        return _of_printed(printed)
    found = find_launch(text, name)
    folder = Path() if _is_line(source) else Path(source).parent
    return _with_configuration(found, folder) if found.config_name else found


def _is_line(source: str) -> bool:
    return "\n" in source or _LINE.match(source) is not None


def _read(source: str) -> str:
    """Raises UsageError for anything that is no text of up to a few MiB."""
    from rlx.local_files import read_stdin, read_text

    try:
        return read_stdin(_MOST_BYTES).decode() if source == "-" else read_text(Path(source), _MOST_BYTES)
    except UnicodeDecodeError:
        raise UsageError(f"--from {source}: not UTF-8 text", f"name {_FORMS}") from None
    except OSError as problem:
        raise UsageError(f"--from {source}: {problem.strerror}", f"name {_FORMS}") from None
    except ValueError:
        raise UsageError("--from: no file can have this name", f"name {_FORMS}") from None


def _of_configuration(text: str, name: str) -> FoundLaunch:
    tree = _tree(text, name)
    if program := _program_of(tree):
        return _safe(FoundLaunch(program, tuple(_leaves(tree))))
    if "backend" in tree or "extends" in tree:
        raise UsageError(f"--from {name}: is a recipe already", f"rlx validate {name}")
    raise UsageError(f"--from {name}: is no configuration that rlx knows", f"name {_FORMS}")


def _program_of(tree: Mapping[str, Any]) -> str:
    known = (cast("KeysPart", module).program_of(tree) for _, module in parts("users_keys"))
    return next(filter(None, known), "")


def _with_configuration(found: FoundLaunch, folder: Path) -> FoundLaunch:
    """Where the keys stand in a YAML of the checkout: read it beside the script, or in the checkout's configs/."""
    name = keys_part(found.program).file_of(found.program, found.config_name)
    if not name:
        return found
    places = [folder / name, *(parent / "configs" / name for parent in (folder, *list(folder.resolve().parents)[:3]))]
    place = next((place for place in places if _is_file(place)), None)
    if place is None:
        raise UsageError(
            f"--from: the script starts from {name}, which is not beside it", f"name {name} itself, or put it there"
        )
    pairs = tuple(_leaves(_tree(_read(str(place)), str(place))))
    own = tuple(pair for pair in found.pairs if pair[0] != SEARCH_PATH)
    return _safe(replace(found, pairs=(*pairs, *own), config_name=""))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than a file can have
        return False


def _safe(found: FoundLaunch) -> FoundLaunch:
    """Move secrets out of the values of a configuration."""
    secrets, names = Secrets(found.pairs), list(found.secrets)
    pairs = tuple((key, secrets.moved_out(key, value, names)) for key, value in found.pairs)
    return replace(found, pairs=pairs, secrets=tuple(names))


def _tree(text: str, name: str) -> Mapping[str, Any]:
    from rlx.yaml_reader.hydra import read_hydra
    from rlx.yaml_reader.reader import YamlError

    try:
        tree = read_hydra(text)
    except YamlError as problem:
        first = problem.problems[0]
        raise UsageError(f"--from {name}, line {first.line}: {first.text}", "correct the file") from None
    if not isinstance(tree, dict):
        raise UsageError(f"--from {name}: is no configuration that rlx knows", f"name {_FORMS}")
    return tree


def _of_printed(tree: Mapping[str, Any]) -> FoundLaunch:
    """A printed configuration has every key: those with the back-end's own value say nothing of the launch."""
    program = _program_of(tree)
    return _safe(FoundLaunch(program, tuple(keys_part(program).beyond_defaults(dict(_leaves(tree))).items())))


def _leaves(tree: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and depth < _MOST_DEPTH and path != "defaults":
            yield from _leaves(value, f"{path}.", depth + 1)
        elif path == "defaults":
            yield path, [item for item in value if item != "_self_"] if isinstance(value, list) else value
        else:
            yield path, value
