"""An image of which rlx makes a container."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Image:
    """`mounts` are `SOURCE:DESTINATION[:ro]`, beside the root and the drivers.

    Without `keep` the container ends some minutes after its last run, and is removed; one that a job makes
    ends with it. `user` is as `docker run` takes it; None is the image's own, and in a job's container who submits it.
    """

    name: str
    keep: bool = True
    mounts: tuple[str, ...] = ()
    user: str | None = None
