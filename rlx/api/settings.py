"""Show and change the defaults of commands: the host, its container, the folder of its runs.

They are written in the user's file of hosts. The project's file goes before where it has defaults, as do variables.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.hosts import Host

KEYS = {
    "host": "the host of commands that name none",
    "container": "the running container on that host",
    "root": "the folder of the runs on that host",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A key with its value, None if it has none, and where it is written: file and line, a variable, or nothing."""

    key: str
    value: str | None
    written: str


def settings() -> tuple[Setting, ...]:
    """Return the settings that count now, those of KEYS first, then the folders and files of rlx, which variables name.

    Raises UsageError for a file of hosts with mistakes.
    """
    from rlx.api.runs import rlx_home
    from rlx.hosts import default_host, known_host, project_file, user_file

    default = default_host()
    host = known_host()
    container = default.container or host.container
    files = {"home": (rlx_home(), "RLX_HOME"), "hosts file": (user_file(), "RLX_CONFIG")}
    if (project := project_file()) is not None:
        files["project file"] = (project, "RLX_PROJECT")
    return (
        Setting("host", default.host, default.written),
        Setting("container", container, (default.written if default.container else host.written) if container else ""),
        Setting("root", host.root, _root_written(host)),
        *(Setting(key, str(path), name if os.environ.get(name) else "") for key, (path, name) in files.items()),
    )


def setting(key: str) -> Setting:
    """Return one of KEYS as it counts now. Raises UsageError for another key."""
    if key not in KEYS:
        raise UsageError(f"there is no setting {key!r}", f"settings: {', '.join(KEYS)}")
    return next(each for each in settings() if each.key == key)


def change_setting(key: str, value: str | None) -> Setting:
    """Write a setting to the user's file, or remove it where the value is None. Return what counts afterwards.

    With another host goes the container, which belongs to the one before. Raises UsageError for an unknown key, an
    unknown host, or a value that a file of hosts refuses.
    """
    from rlx.hosts import default_host, known_host, user_file
    from rlx.hosts.inventory.host_edit import change_entry, put_defaults
    from rlx.hosts.inventory.host_file import read_host_file

    setting(key)
    path = user_file()
    defaults = read_host_file(path).defaults
    if key == "root":
        change_entry(path, default_host().host, {"root": value})
    elif key == "host":
        if value is not None:
            known_host(value)
        container = defaults.container if defaults and defaults.host == value else None
        put_defaults(path, {"host": value, "container": container})
    else:
        put_defaults(path, {"host": defaults.host if defaults else default_host().host, "container": value})
    return setting(key)


def _root_written(host: Host) -> str:
    from rlx.model import LOCAL, Site

    if host.name == LOCAL.host and os.environ.get("RLX_ROOT"):
        return "RLX_ROOT"
    return host.written if host.root != Site().root else ""
