"""Describe where a run goes: the machine, its folders, container and scheduler, and the back-end installed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_LEASES = "/var/tmp/rlx-leases"


@dataclass(frozen=True, slots=True)
class Place:
    """A machine that rlx can run commands on.

    `host` is what people call it. `destination` is what ssh is given to get there; None is this machine. `via` names
    the transport: openssh or paramiko. `inside` is a container of that machine, for runs whose files are in the
    container's own file system because host and container share no folder; commands then run in it.
    """

    host: str = "local"
    destination: str | None = None
    via: str = "openssh"
    inside: str | None = None

    @property
    def is_local(self) -> bool:
        """Return whether the files are this machine's, so that rlx can open them."""
        return self.destination is None and self.inside is None


LOCAL = Place()


@dataclass(frozen=True, slots=True)
class BatchScheduler:
    """The batch scheduler of a host, which decides when and on which node a run starts, and its settings.

    `scheduler` is its name in rlx/schedulers/registry.py, and the key of the entry; `settings` are its own, as JSON.
    """

    scheduler: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """An image of which rlx makes a container.

    `mounts` are `SOURCE:DESTINATION[:ro]`, beside the root and the drivers.

    Without `keep` the container ends some minutes after its last run, and is removed; one that a job makes
    ends with it. `user` is as `docker run` takes it; None is the image's own, and in a job's container who submits it.
    """

    name: str
    keep: bool = True
    mounts: tuple[str, ...] = ()
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """The place where a run goes.

    `root` is the folder of the runs as `place` writes it; it may start with `~`, which is the home directory there.
    With a `container` (as people call it; `container_id` is the full id that was found), the command runs in it, and
    `container_root` is the same folder as the container sees it; None where the runs are inside it (`place.inside`);
    `image` is the id of its image. `leases` is the folder of tickets and device locks, the same for all users of that
    host. `setup` are scripts that are sourced before anything else, `env` is exported after them; `proxies` maps a
    variable to the name of the secret that holds its value. `path_prefix` is put before PATH: for this machine, the
    folder of the interpreter that runs rlx. `address` is what other hosts reach this one by; None: not known. With
    `batch`, the host is a login node, and its scheduler decides when and on which node a run starts; with a
    `job_image`, each job makes a container of it there, and what is in that is seen on a node only.
    """

    place: Place = LOCAL
    container: str | None = None
    container_id: str | None = None
    image: str | None = None
    root: str = "~/rlx"
    container_root: str | None = None
    leases: str = DEFAULT_LEASES
    setup: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    path_prefix: tuple[str, ...] = ()
    address: str | None = None
    batch: BatchScheduler | None = None
    job_image: Image | None = None

    @staticmethod
    def upgraded(written: dict[str, Any]) -> dict[str, Any]:
        """Return what an earlier version wrote in the form of now: Slurm's settings stood under a key of their own."""
        if "slurm" not in written:
            return written
        slurm = written["slurm"]
        rest = {name: value for name, value in written.items() if name != "slurm"}
        return rest if slurm is None else {"batch": {"scheduler": "slurm", "settings": slurm}, **rest}

    @property
    def host(self) -> str:
        return self.place.host


NO_FOLDER = 90
NO_PYTHON = 91
NO_READER = 92


@dataclass(frozen=True, slots=True)
class InstallationQuestion:
    """A bash script that goes where a run would start and answers there as `rlx/payload/config_tree.py` does.

    Its arguments are `look` or `pack`, and `start` or `read`: without `may_start`, `python` is not started, and what
    is beside it is read with the host's own. It exits with NO_FOLDER or NO_PYTHON where the run could not start without
    `folder` or `python`, with NO_READER if the host has no Python of its own. `package` and `entrypoint` are
    what the run would import and execute.
    """

    script: str
    package: str
    entrypoint: str
    python: str
    folder: str | None
    may_start: bool = True


@dataclass(frozen=True, slots=True)
class Installation:
    """The back-end as one query found it. `where` is the name of the place: a host, or a container of it.

    `folder` is a local copy of its configuration files; None if they cannot be had, and `problem` says why. `missing`
    is what a run would fail at once for. `version` is "" where the back-end does not say. `model` is the text of the
    model's config.json, "" without one. `unasked` is the interpreter that was not started, "" if it was.
    """

    where: str
    version: str = ""
    folder: Path | None = None
    missing: str = ""
    problem: str = ""
    model: str = ""
    unasked: str = ""
