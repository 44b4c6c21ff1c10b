"""Everything that one look at a site found: what the checks judge and `rlx doctor` prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rlx.hosts.clock import Clock
from rlx.model import Site
from rlx.planning.probing.probe import Facts, Side
from rlx.planning.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Examined:
    """`inside` is the container's side: None where no container was asked for or none could be entered.

    `entry` is why the container could not be entered.
    """

    site: Site
    wanted: Wanted
    host: Side
    inside: Side | None = None
    clock: Clock | None = None
    entry: str | None = None

    @property
    def environment(self) -> Side | None:
        """The side on which the run would train; None if nobody could look, as into the image of a job."""
        if self.site.job_image is not None:
            return None
        return self.host if self.site.container is None else self.inside

    @property
    def where(self) -> str:
        """The name of that side in messages."""
        return f"container {self.site.container}" if self.site.container else self.site.host

    def sides(self) -> list[tuple[str, Side]]:
        """(name, side) of all that were looked at."""
        found = [(self.site.host, self.host)]
        return [*found, (self.where, self.inside)] if self.inside else found


def folders(side: Side) -> list[Facts]:
    return side.of("disk").get("paths") or []


def chips(side: Side | None) -> list[dict[str, Any]]:
    return (side.of("npu_smi").get("chips") or []) if side else []


# As in locate.sh: what is mounted from there is somebody's system.
_SYSTEM = ("/dev", "/proc", "/sys", "/etc", "/usr", "/run", "/var/run", "/boot", "/lib", "/lib64", "/bin", "/sbin")


def shared_folders(examined: Examined) -> list[PurePosixPath]:
    """The host's folders that it shares with the container and that could hold runs."""
    # Docker's volumes lie where only root may look.
    kinds = ("bind", "volume") if examined.host.of("machine").get("uid") == 0 else ("bind",)
    mounts = examined.host.of("container").get("mounts") or ()
    sources = [PurePosixPath(mount["source"]) for mount in mounts if mount["writable"] and mount["type"] in kinds]
    return [source for source in sources if not _is_system(source)]


def _is_system(folder: PurePosixPath) -> bool:
    return folder == PurePosixPath("/") or any(folder.is_relative_to(system) for system in _SYSTEM)


def shares_root(examined: Examined) -> bool:
    """Tell whether the container sees the folder that the site names for the runs."""
    root, home = examined.site.root, examined.host.of("machine").get("home", "")
    path = PurePosixPath(home + root[1:] if root.startswith("~") else root)
    return any(path.is_relative_to(folder) for folder in shared_folders(examined))


def root_is_settled(examined: Examined) -> bool:
    """Tell whether runs lie below the site's root on the host for certain.

    In a container a launch takes a shared folder where nobody has chosen a root, and stays inside where there is none.
    """
    site = examined.site
    if site.container is None or site.place.inside is not None:
        return site.container is None
    return site.container_root is not None or (site.root != Site().root and shares_root(examined))


def is_held_outside(examined: Examined) -> bool:
    """Tell whether the holder of a run is on the host: without a folder that both see, it is in the container."""
    site = examined.site
    if site.container is None or site.place.inside is not None:
        return site.container is None
    return site.container_root is not None or bool(shared_folders(examined))
