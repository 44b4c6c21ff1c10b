"""Words for what a project's file of hosts would change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.model import LOCAL

if TYPE_CHECKING:
    from rlx.hosts import Host
    from rlx.hosts.inventory.host import HostFile
    from rlx.hosts.inventory.project import Project


def project_text(project: Project, content: HostFile, user: HostFile, replaces: frozenset[str]) -> str:
    """List every host with its destination and all that would run or travel there, and the default host."""
    lines = [f"{project.path} would change:"]
    for host in content.hosts.values():
        lines += [f"  host {host.name}: {_novelty(host, user, replaces)}", *_settings(host)]
    if defaults := content.defaults:
        container = f", container {defaults.container}" if defaults.container else ""
        lines.append(f"  where a launch goes that names no host: {defaults.host}{container}{_default(user)}")
    return "\n".join(lines if len(lines) > 1 else [f"{project.path} changes nothing"])


def _novelty(host: Host, user: HostFile, replaces: frozenset[str]) -> str:
    if host.name not in replaces:
        return "new"
    if own := user.hosts.get(host.name):
        return f"REPLACES yours ({own.ssh or 'this machine'}, {own.written})"
    return "CHANGES this machine" if host.name == LOCAL.host else "REPLACES the one of your ssh config"


def _default(user: HostFile) -> str:
    return f" (yours: {user.defaults.host})" if user.defaults else ""


def _where_submitted(host: Host) -> str:
    """Say it in the words of the scheduler, or by its name alone where that cannot be loaded."""
    from rlx.schedulers.protocol import entry_of

    if host.batch is None:
        return ""
    try:
        return entry_of(host.batch.scheduler).words(host.batch.settings)
    except RlxError:
        return host.batch.scheduler


def _settings(host: Host) -> Iterator[str]:
    single = {
        "goes to": host.ssh or "this machine",
        "by": "" if host.transport == "openssh" else host.transport,
        "container": host.container,
        "makes a container of": host.image and host.image.name,
        "runs below": host.root,
        "locks in": host.leases,
        "address": host.address,
        "submits jobs to": _where_submitted(host),
    }
    yield from (f"    {name} {value}" for name, value in single.items() if value)
    yield from (f"    mounts {mount} in it" for mount in (host.image.mounts if host.image else ()))
    yield from (f"    runs first: {script}" for script in host.setup)
    if host.python:
        yield f"    started to look: {host.python}"
    yield from (f"    sets {name}={value}" for name, value in host.env.items())
    yield from (f"    receives the secret {secret} as {name}" for name, secret in host.proxies.items())
