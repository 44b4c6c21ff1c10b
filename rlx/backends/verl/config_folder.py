"""The keys of a Hydra configuration folder: what verl accepts when it starts from one of the files in it.

Only YAML is read, nothing is executed. The folder may come from another machine, so nothing in it is trusted: types,
sizes and includes, which may form a circle, are checked. Hydra reads a relative `hydra.searchpath` from the folder in
which training starts, the root of a checkout; the configuration does not name that folder, so it is searched upwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

from rlx.errors import UsageError
from rlx.local_files import read_bytes, read_text
from rlx.yaml_reader.hydra import MOST_BYTES, read_hydra
from rlx.yaml_reader.reader import YamlError

_MOST_INCLUDES = 2_000
_MOST_TOGETHER = 16 << 20
_OF_HYDRA = ("defaults", "hydra")
_HEADER = re.compile(r"\s*#\s*@")
_PACKAGE_HEADER = re.compile(r"\s*#\s*@package\s+(\S+)")
_CHOICE_OF_GROUP = re.compile(r"\$\{([\w/]+)\}")
Package = tuple[str, ...]
_PLACES = ("verl/trainer/config", "trainer/config", "recipe/dapo/config", "dapo/config")
START = "_start"
"""Beside a host's copy of verl's own configuration: that of the program which starts (rlx/payload/config_tree.py)."""
_OWN = PurePosixPath("verl/trainer/config")
_MOST_FOLDERS, _MOST_PARENTS = 16, 8
_MOST_KEYS = 100_000
HINT = "a verl configuration folder holds _generated_ppo_trainer.yaml"


def read_config_folder(folder: Path, trainer: str, config_name: str | None = None) -> dict[str, Any]:
    """Key → default for a start from `config_name`, which is `trainer` itself unless given.

    Of a `config_name` that is there, only what it includes counts: Hydra refuses the rest. verl keeps the composed
    configuration of its own trainers beside the sources; a fork may have added to the sources only, so of a trainer
    both count. Raises UsageError for a folder that has neither.
    """
    places = (folder, folder / START, *(folder / place for place in _PLACES))
    if config_name and config_name != trainer:
        named = next((place for place in places if _is_file(place / f"{config_name}.yaml")), None)
        if named is not None:
            return _composed(named, config_name, trainer)
    found = next(
        (
            place
            for place in places
            if any(_is_file(place / f"{prefix}{trainer}.yaml") for prefix in ("_generated_", ""))
        ),
        folder,
    )
    generated, source = found / f"_generated_{trainer}.yaml", found / f"{trainer}.yaml"
    if not generated.is_file() and not source.is_file():
        raise UsageError(f"{found}: there is neither {generated.name} nor {source.name}", HINT)
    composed = _composed(found, trainer, trainer) if source.is_file() else {}
    return composed | (read_key_file(generated) if generated.is_file() else {})


def read_config_file(file: Path, document: Mapping[str, Any], own: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Return the files of its defaults list that are not beside it, and the keys of a user's file.

    `own` are verl's configurations, of which it is a layer: the keys of one in a folder of its
    `hydra.searchpath` are verl's, and are left out. Raises UsageError for what cannot be read.
    """
    names = [name for name in _defaults(document) if name != "_self_"]
    layers = [name for name in names if isinstance(name, str) and _is_file(file.parent / f"{name}.yaml")]
    searched = () if any(name in own for name in names) else searched_folders(file.parent, document)
    composition = _Composition(file.parent, {}, searched)
    composition.include(PurePosixPath(file.stem), (), "")
    # A group is a choice among verl's own files where the folder has none of that name.
    groups = {group: option for group, option in composition.groups.items() if option is not None}
    paths = [file.parent / f"{layer}.yaml" for layer in layers]
    below = [
        name for path in paths for name in _defaults(read_yaml(path)) if isinstance(name, str) and name != "_self_"
    ]
    left = [name for name in names if not isinstance(name, dict) and name not in layers]
    return [*left, *below], {**groups, **flat(composition.tree, file)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # No file can have a name of this length.
        return False


@dataclass
class _Composition:
    """The keys that Hydra's defaults lists bring together. `choices` are the options taken of each group so far.

    `searched` are further folders in which Hydra looks for a file, after its own. `chain` is the file that is being
    read, and before it those that include it.
    """

    folder: Path
    choices: dict[str, str]
    searched: tuple[Path, ...] = ()
    groups: dict[str, Any] = field(default_factory=dict)
    tree: dict[str, Any] = field(default_factory=dict)
    includes: int = 0
    size: int = 0
    chain: list[PurePosixPath] = field(default_factory=list)

    def include(self, config: PurePosixPath, parent: Package, package: str | None = None) -> None:
        """Add one file, and first those that it names. A file that is not there adds nothing."""
        path = self._path_of(config)
        self.includes += 1
        if self.includes > _MOST_INCLUDES or config in self.chain:
            raise UsageError(f"{path}: the configuration files include each other without end")
        if ".." in config.parts or not _is_file(path):
            return
        self.size += path.stat().st_size
        if self.size > _MOST_TOGETHER:
            raise UsageError(f"{path}: these configuration files have over {_MOST_TOGETHER >> 20} MiB together", HINT)
        document = read_yaml(path)
        here = _package(parent, package if package is not None else _header(path))
        self.chain.append(config)
        for default in _defaults(document):
            self._follow(default, config.parent, here)
        self.chain.pop()
        # Hydra's own settings are no keys of the program.
        body: dict[str, Any] = {name: value for name, value in document.items() if name not in _OF_HYDRA}
        flat(body, path)
        for part in reversed(here):
            body = {part: body}
        self.tree = _merged(self.tree, body)

    def _follow(self, default: Any, folder: PurePosixPath, here: Package) -> None:
        if isinstance(default, str):
            if default != "_self_":
                written, _, package = default.partition("@")
                parents = () if package else _relative(PurePosixPath(written).parent)
                self.include(_within(folder, written), (*here, *parents), package)
        elif isinstance(default, dict):
            for group, option in default.items():
                self._follow_group(str(group), option, folder, here)

    def _follow_group(self, written: str, option: Any, folder: PurePosixPath, here: Package) -> None:
        name = written.removeprefix("optional ").removeprefix("override ")
        if not here:
            self.groups[name] = option
        if written.startswith("override ") or option is None:
            return
        group, _, package = name.partition("@")
        taken = option if isinstance(option, list) else [self.choices.setdefault(name, str(option))]
        for one in taken:
            known = _CHOICE_OF_GROUP.sub(lambda match: self.choices.get(match[1], ""), str(one))
            where = _within(folder, group) / known
            self.include(where, here, package or self._package_of(where, group))

    def _path_of(self, config: PurePosixPath) -> Path:
        paths = [place / f"{config}.yaml" for place in (self.folder, *self.searched)]
        return next(filter(_is_file, paths), paths[0])

    def _package_of(self, config: PurePosixPath, group: str) -> str:
        path = self._path_of(config)
        return (_header(path) if _is_file(path) else None) or ".".join(_relative(PurePosixPath(group)))


def _composed(folder: Path, name: str, trainer: str) -> dict[str, Any]:
    engine = {"model_engine": "megatron"} if trainer == "ppo_megatron_trainer" else {}
    document = read_yaml(folder / f"{name}.yaml")
    searched = searched_folders(folder, document)
    # The choices that a file makes for the files that it includes are valid there already.
    groups = (default for default in _defaults(document) if isinstance(default, dict))
    pairs = ((str(group), str(option)) for default in groups for group, option in default.items())
    choices = {group.removeprefix("override "): option for group, option in pairs if group.startswith("override ")}
    composition = _Composition(folder, {**choices, **engine}, searched)
    config = PurePosixPath(name)
    own = _header(folder / f"{name}.yaml")
    composition.include(config, (), own or ".".join(config.parent.parts))
    return flat(composition.tree, folder) | composition.groups


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge as OmegaConf does: sections join, anything else is replaced."""
    both = {
        key: _merged(below[key], above[key])
        for key in below.keys() & above.keys()
        if isinstance(below[key], dict) and isinstance(above[key], dict)
    }
    return {**below, **above, **both}


def _defaults(document: Mapping[str, Any]) -> list[Any]:
    found = document.get("defaults")
    return found if isinstance(found, list) else []


def _header(path: Path) -> str | None:
    """Read the line `# @package`; Hydra reads such lines at the very top only."""
    try:
        lines = read_bytes(path, MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return None
    top = takewhile(_HEADER.match, filter(str.strip, lines))
    return next((match[1] for line in top if (match := _PACKAGE_HEADER.match(line))), None)


def _package(parent: Package, written: str | None) -> Package:
    first, *others = (written or "").split(".")
    if first == "_global_":
        return tuple(others)
    return (*parent, *(part for part in (first, *others) if part and part != "_here_"))


def _within(folder: PurePosixPath, written: str) -> PurePosixPath:
    """Resolve a group or file of a defaults list: absolute, or relative to the folder of the list."""
    parts: list[str] = [] if written.startswith("/") else [part for part in folder.parts if part != "."]
    for part in PurePosixPath(written.lstrip("/")).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return PurePosixPath(*parts)


def _relative(written: PurePosixPath) -> Package:
    return tuple(part for part in written.parts if part not in ("/", ".", ".."))


def searched_folders(folder: Path, document: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the existing folders, in order. Absolute paths and those with `..` are a host's, and are left out."""
    hydra = document.get("hydra")
    written = hydra.get("searchpath") if isinstance(hydra, dict) else None
    entries = written[:_MOST_FOLDERS] if isinstance(written, list) else []
    found = (_find(folder, _relative_path(entry)) for entry in entries if isinstance(entry, str))
    return tuple(place for place in found if place is not None)


def _relative_path(entry: str) -> PurePosixPath | None:
    scheme, mark, rest = entry.partition("://")
    text = entry if not mark else rest.replace(".", "/") if scheme == "pkg" else rest if scheme == "file" else ""
    path = PurePosixPath(text)
    return None if not text or path.is_absolute() or ".." in path.parts or "$" in text else path


def _find(folder: Path, path: PurePosixPath | None) -> Path | None:
    if path is None:
        return None
    if folder.name == START and path == _OWN:
        return folder.parent
    start = folder.absolute()
    return next((place / path for place in (start, *start.parents)[:_MOST_PARENTS] if _is_folder(place / path)), None)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def read_key_file(path: Path) -> dict[str, Any]:
    """Key → default of one YAML file, flat or nested."""
    return dict(_keys_in(_text_of(path), path))


@lru_cache(maxsize=16)
def _keys_in(text: str, path: Path) -> Mapping[str, Any]:
    """Cache the keys by the file's text: a plan reads the keys of its file several times, which is slow."""
    return flat(_mapping_in(text, path), path)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping. Raises UsageError for anything else, also for values that only look like YAML's."""
    return _mapping_in(_text_of(path), path)


def _text_of(path: Path) -> str:
    try:
        return read_text(path, MOST_BYTES)
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}", HINT) from None


def _mapping_in(text: str, path: Path) -> dict[str, Any]:
    try:
        document = read_hydra(text)
    except YamlError as error:
        raise UsageError(f"{path}:{error.problems[0]}", HINT) from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no mapping of configuration keys")
    return document


def flat(tree: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """Leaves by dotted key. Raises UsageError for more than a back-end can have: files may name each other."""
    leaves = dict(_leaves(tree, ""))
    if len(leaves) > _MOST_KEYS:
        raise UsageError(f"{where}: more than {_MOST_KEYS:,} keys")
    return leaves


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
