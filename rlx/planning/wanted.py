"""Collect what a recipe asks of the machine that is to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlx.backends.registry import kinds, optional_part

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class Flaw:
    """Of the machine, or of a file on it: an error, and what to do about it."""

    id: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class DataFile:
    """`role` is model, train or val, or one of the back-end's own.

    `rows` is what the recipe says, None where it says nothing. `key`: of the prompts; of a reward, its function.
    `passed`: the names of the arguments that this function is called with.
    """

    role: str
    path: str
    rows: int | None = None
    key: str | None = None
    passed: tuple[str, ...] = ()


FileCheck = Callable[[DataFile, Mapping[str, Any]], Iterator[Flaw]]
"""Takes a file that is wanted and the facts that the probe of paths found."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Without a recipe nothing is wanted: the facts are shown, and few of them can be wrong.

    `devices` are those of each of `nodes`. `cpus`: with fewer of them the run would wait for ever. Without `may_start`,
    `python` is not started to look. `pairs`: training and validation file whose overlap nobody has accepted, and the
    column of the prompts.
    """

    backend: str | None = None
    version: str | None = None
    python: str = "python3"
    may_start: bool = True
    workdir: str | None = None
    device: str | None = None
    devices: int = 0
    nodes: int = 1
    files: tuple[DataFile, ...] = ()
    cpus: int = 0
    trackers: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str, str], ...] = ()


def data_files(recipe: Recipe) -> Iterator[DataFile]:
    """A folder with the model, and two tables."""
    yield DataFile("model", recipe.model.path)
    yield DataFile("train", recipe.data.train, recipe.data.train_rows, recipe.data.prompt_key)
    yield DataFile("val", recipe.data.val, recipe.data.val_rows, recipe.data.prompt_key)


def _no_cpus(resolved: ResolvedRecipe) -> int:
    return 0


def _no_shortage(cpus: int, wanted: Wanted, devices: int) -> Iterator[Flaw]:
    return iter(())


@dataclass(frozen=True, slots=True)
class BackendHost:
    """What a back-end wants of the machine that runs it: the `HOST` of its module `host`, if it has one.

    `name`: as people call it; `packages`: as Python names them, the back-end first. Not `is_numbered`: what its package
    says of its version means nothing. `version_file`: in the package's folder, where nobody installed it.
    `file_checks`: by roles that are its own. `cpus`: without which it waits for ever, as `shortage` says. `starts_ray`:
    a run has a Ray, to which processes of other people may try to speak.
    """

    name: str = ""
    packages: tuple[str, ...] = ()
    is_numbered: bool = True
    version_file: str = ""
    starts_ray: bool = False
    files: Callable[[Recipe], Iterator[DataFile]] = data_files
    file_checks: Mapping[str, FileCheck] = field(default_factory=dict)
    cpus: Callable[[ResolvedRecipe], int] = _no_cpus
    shortage: Callable[[int, Wanted, int], Iterator[Flaw]] = _no_shortage


def host_of(kind: str) -> BackendHost:
    """Of a back-end without a module `host`: a model and tables, and no package that could be looked for."""
    own = optional_part(kind, "host")
    host: BackendHost = own.HOST if own else BackendHost(kind)
    return host


def hosts() -> tuple[BackendHost, ...]:
    return tuple(map(host_of, kinds()))


def package_arguments() -> tuple[str, ...]:
    """For the probe of packages: NAME, or NAME=FILE where its version stands in a file."""
    firsts = {host.packages[0]: host.version_file for host in hosts() if host.packages}
    names = dict.fromkeys(name for host in hosts() for name in host.packages)
    return tuple(f"{name}={firsts[name]}" if firsts.get(name) else name for name in names)


def wanted_by(arms: Sequence[ResolvedRecipe]) -> Wanted:
    """Of all arms: they run on the same machine, and differ in their files at most. Of none, nothing."""
    if not arms:
        return Wanted()
    resolved = [arm.recipe for arm in arms]
    first = resolved[0]
    host = host_of(first.backend.kind)
    return Wanted(
        backend=first.backend.kind,
        version=first.backend.version,
        python=first.backend.python,
        workdir=first.backend.workdir,
        device=first.layout.device,
        devices=max(one.layout.devices_per_node for one in resolved),
        nodes=max(one.layout.nodes for one in resolved),
        files=_distinct(file for one in resolved for file in host.files(one)),
        cpus=max(map(host.cpus, arms)),
        pairs=tuple(dict.fromkeys(pair for one in resolved for pair in _pairs(one, host))),
        trackers=tuple(dict.fromkeys(name for one in resolved if one.track for name in one.track.to)),
    )


def _pairs(recipe: Recipe, host: BackendHost) -> Iterator[tuple[str, str, str]]:
    """Yield the tables of a recipe, unless it waives RLX024 or its back-end reads other files."""
    files = {file.role: file for file in host.files(recipe)}
    if {"train", "val"} <= files.keys() and not recipe.waive.get("RLX024"):
        yield files["train"].path, files["val"].path, recipe.data.prompt_key


def _distinct(files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    return tuple(dict.fromkeys(files))
