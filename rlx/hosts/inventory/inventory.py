"""Find the hosts that rlx knows, and where runs are on them.

What counts of the project's file is in project.py. An entry of it replaces the user's entry of the same name as a
whole, and so do its defaults.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path

from rlx.errors import UsageError
from rlx.hosts.inventory.host import Defaults, Host, HostFile
from rlx.hosts.inventory.host_files import user_file
from rlx.model import LOCAL, Image, Place, Site

MADE = "rlx-made-"
"""How the names of containers begin that rlx makes."""
_BARE_DESTINATION = frozenset("@.:/")


def site_of(name: str | None = None, container: str | Image | None = None) -> Site:
    """Find where runs go on a host: a known name, `local`, or an ssh destination. Asks no host.

    None is the default host of the project or the user, else this machine. `container` replaces that of the entry, and
    an image is the one to make it of; an empty one means the host itself. The container of an image may not have been
    made yet; with a batch scheduler each job makes its own. Raises UsageError for a host that rlx does not know.
    """
    host = known_host(name)
    if host.batch is not None and (container is None or isinstance(container, Image)):
        return replace(_site(host, None), job_image=container or host.image)
    if isinstance(container, Image):
        container = made_name(container)
    if container is None:
        default = default_host()
        container = (default.container if host.name == default.host else None) or host.container
        container = container or (made_name(host.image) if host.image else None)
    return _site(host, _checked_container(container) if container else None)


def made_name(image: Image) -> str:
    """Name the container that rlx makes of an image: another one for another person, image or setting."""
    import hashlib
    import json
    import re

    what = hashlib.sha256(json.dumps(astuple(image)).encode()).hexdigest()
    return f"{MADE}{re.sub('[^A-Za-z0-9_.-]', '-', _user())}-{what[:12]}"


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A uid without a name, as in some containers.
        return str(os.getuid())


def known_host(name: str | None = None) -> Host:
    """Return the entry of a name, of a bare ssh destination, or of the default host. Raises UsageError."""
    if name is not None:
        return _find(name)
    from rlx.hosts.inventory.trusted import read_project

    if (project := read_project()) and not project.is_trusted and project.content().defaults:
        project.refuse_if_untrusted("where this goes is said by")
    default = default_host()
    try:
        return _find(default.host)
    except UsageError as error:
        raise UsageError(f"{default.written}: defaults.host: {error.message}", error.hint) from None


def known_hosts() -> Mapping[str, Host]:
    """All entries by name; `local` is always there, and first. Raises UsageError for a file with mistakes."""
    user, project = _files()
    known = {LOCAL.host: Host(LOCAL.host), **user.hosts, **project.hosts}
    return known | {LOCAL.host: _this_machine(known[LOCAL.host])}


def default_host() -> Defaults:
    """Find where a launch goes that names no host."""
    user, project = _files()
    return project.defaults or user.defaults or Defaults()


def local_site() -> Site:
    """Find this machine, with the programs next to rlx's Python. `$RLX_ROOT` and `$RLX_LEASES` override."""
    return site_of(LOCAL.host)


def tmux_socket() -> str:
    """Return the name of the tmux server that holds the sessions of runs (`tmux -L`). `$RLX_TMUX_SOCKET` overrides."""
    return os.environ.get("RLX_TMUX_SOCKET") or "rlx"


def _files() -> tuple[HostFile, HostFile]:
    # Imported late, like all that only some commands need: `rlx status` must answer at once.
    from rlx.hosts.inventory.host_file import read_host_file
    from rlx.hosts.inventory.trusted import read_project

    user, project = read_host_file(user_file()), read_project()
    return user, project.counted(user) if project else HostFile()


def _find(name: str) -> Host:
    from rlx.hosts.inventory.host_values import destination_problem
    from rlx.hosts.inventory.trusted import read_project

    if (host := known_hosts().get(name)) is not None:
        return host
    if (project := read_project()) and not project.is_trusted and name in project.content().hosts:
        project.refuse_if_untrusted(f"host {name} is named only by")
    if problem := destination_problem(name):
        raise UsageError(f"host: {problem}", "rlx hosts lists the known ones")
    if not set(name) & _BARE_DESTINATION and not _is_ssh_name(name):
        raise _unknown(name)
    return Host(name, ssh=name)


def _checked_container(name: str) -> str:
    from rlx.hosts.inventory.host_values import container_problem

    if problem := container_problem(name):
        raise UsageError(f"container: {problem}", "docker ps, on the host, lists names and ids")
    return name


def _is_ssh_name(name: str) -> bool:
    from rlx.hosts.ssh.ssh_config import is_ssh_name

    return is_ssh_name(name)


def _unknown(name: str) -> UsageError:
    """Refuse a misspelt name, which must not become a connection to another machine of that name."""
    import difflib

    from rlx.hosts.ssh.ssh_config import ssh_names

    known = [*known_hosts(), *ssh_names()]
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    listed = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    return UsageError(
        f"unknown host {name!r}",
        f"{meant}known: {listed}; a host without an entry is written USER@{name} or ssh://{name}; "
        f"rlx hosts add {name} DESTINATION makes one",
    )


def _this_machine(host: Host) -> Host:
    root, leases = os.environ.get("RLX_ROOT"), os.environ.get("RLX_LEASES")
    return replace(
        host,
        root=str(Path(root).expanduser().absolute()) if root else host.root,
        leases=leases or host.leases,
    )


def _site(host: Host, container: str | None) -> Site:
    from rlx.hosts.inventory.host_values import plain_address

    is_local = host.name == LOCAL.host
    return Site(
        LOCAL if is_local else Place(host.name, host.ssh, host.transport),
        container=container,
        root=host.root,
        leases=host.leases,
        setup=host.setup,
        env=host.env,
        proxies=host.proxies,
        # The interpreter that runs rlx is none of a container's.
        path_prefix=(str(Path(sys.executable).parent),) if is_local and not container else (),
        address=host.address or (plain_address(host.ssh) if host.ssh else None),
        batch=host.batch,
    )
