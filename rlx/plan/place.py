"""Place: where a run directory is, and how it is reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A machine that rlx can run commands on.

    `host` is what people call it. `destination` is what ssh is given to get there; None is this machine. `via` names
    the transport: openssh or paramiko. `inside` is a container of that machine, for runs whose files lie in the
    container's own file system because host and container share no folder; commands then run in it.
    """

    host: str = "local"
    destination: str | None = None
    via: str = "openssh"
    inside: str | None = None

    @property
    def is_local(self) -> bool:
        """The files are this machine's: they can be opened."""
        return self.destination is None and self.inside is None


LOCAL = Place()
