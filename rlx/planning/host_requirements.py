"""Collect the requirements of a recipe on the machine that will run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlx.backends.registry import kinds, optional_part

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class HostFinding:
    """An error of the machine or of a file on it, and how to fix it."""

    id: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a run reads. `role` is model, train or val, or one that the back-end defines.

    `rows`: the number in the recipe, None where it has none. `key`: the column of the prompts, or the function of a
    reward. `passed`: the names of the arguments that this function is called with.
    """

    role: str
    path: str
    rows: int | None = None
    key: str | None = None
    passed: tuple[str, ...] = ()


FileCheck = Callable[[DataFile, Mapping[str, Any]], Iterator[HostFinding]]
"""Takes a required file and the facts that the probe of paths found."""


@dataclass(frozen=True, slots=True)
class HostRequirements:
    """What a recipe requires of its host. Without a recipe nothing is required, and the facts are only shown.

    `env`: the recipe's variables about the Hugging Face hub.
    `declared`: kind and number of the devices in the host's entry, where a person or a script relies on that alone.

    `devices` is the number for each of the `nodes`. `cpus`: with fewer of them the run would never start. Without
    `may_start`, `python` is not started for the query. `pairs`: training and validation files whose overlap the recipe
    does not waive, and the column of the prompts.
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
    declared: tuple[str, int] | None = None
    env: tuple[tuple[str, str], ...] = ()


def data_files(recipe: Recipe) -> Iterator[DataFile]:
    """Yield the folder of the model and the two tables."""
    yield DataFile("model", recipe.model.path)
    yield DataFile("train", recipe.data.train, recipe.data.train_rows, recipe.data.prompt_key)
    yield DataFile("val", recipe.data.val, recipe.data.val_rows, recipe.data.prompt_key)


def _no_cpus(resolved: ResolvedRecipe) -> int:
    return 0


def _no_shortage(cpus: int, wanted: HostRequirements, devices: int) -> Iterator[HostFinding]:
    return iter(())


@dataclass(frozen=True, slots=True)
class BackendHost:
    """What a back-end requires of the machine that runs it: the `HOST` of its module `host`, if it has one.

    `name`: for messages; `packages`: Python's names of them, the back-end first. Without `is_numbered`, the version of
    its package is meaningless. `version_file`: in the package's folder, for a checkout that is not installed.
    `file_checks`: by the roles that it defines. `cpus`: with fewer of them it waits forever; `shortage` reports that.
    `starts_ray`: a run has a Ray, which processes of other users may try to reach. `joins_ray`: where the run is
    started inside a Ray, its trainer joins that, and asks it for all devices of the run.
    """

    name: str = ""
    packages: tuple[str, ...] = ()
    is_numbered: bool = True
    version_file: str = ""
    starts_ray: bool = False
    joins_ray: bool = False
    files: Callable[[Recipe], Iterator[DataFile]] = data_files
    file_checks: Mapping[str, FileCheck] = field(default_factory=dict)
    cpus: Callable[[ResolvedRecipe], int] = _no_cpus
    shortage: Callable[[int, HostRequirements, int], Iterator[HostFinding]] = _no_shortage


def host_of(kind: str) -> BackendHost:
    """Return the requirements of a back-end; without a module `host`: a model and tables, and no package."""
    own = optional_part(kind, "host")
    host: BackendHost = own.HOST if own else BackendHost(kind)
    return host


def hosts() -> tuple[BackendHost, ...]:
    return tuple(map(host_of, kinds()))


def package_arguments() -> tuple[str, ...]:
    """Return the arguments of the probe of packages: NAME, or NAME=FILE where a file has its version."""
    firsts = {host.packages[0]: host.version_file for host in hosts() if host.packages}
    names = dict.fromkeys(name for host in hosts() for name in host.packages)
    return tuple(f"{name}={firsts[name]}" if firsts.get(name) else name for name in names)


def requirements_of(arms: Sequence[ResolvedRecipe]) -> HostRequirements:
    """Combine the requirements of all arms: they use the same machine, and at most their files differ."""
    if not arms:
        return HostRequirements()
    resolved = [arm.recipe for arm in arms]
    first = resolved[0]
    host = host_of(first.backend.kind)
    return HostRequirements(
        backend=first.backend.kind,
        version=first.backend.version,
        python=first.backend.python,
        workdir=first.backend.workdir,
        device=first.layout.device,
        devices=max(one.layout.devices_per_node for one in resolved),
        nodes=max(one.layout.nodes for one in resolved),
        files=tuple(dict.fromkeys(file for one in resolved for file in host.files(one))),
        cpus=max(map(host.cpus, arms)),
        pairs=tuple(dict.fromkeys(pair for one in resolved for pair in _pairs(one, host))),
        trackers=tuple(dict.fromkeys(name for one in resolved if one.track for name in one.track.to)),
        env=tuple((name, value) for name, value in first.env.items() if name.startswith(("HF_", "TRANSFORMERS_"))),
    )


def _pairs(recipe: Recipe, host: BackendHost) -> Iterator[tuple[str, str, str]]:
    """Yield the tables of a recipe, unless it waives RLX024 or its back-end reads other files."""
    files = {file.role: file for file in host.files(recipe)}
    if {"train", "val"} <= files.keys() and not recipe.waive.get("RLX024"):
        yield files["train"].path, files["val"].path, recipe.data.prompt_key
