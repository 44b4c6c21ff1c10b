"""rlx hosts: manage hosts: list, show, add, start, remove, trust, reindex."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import HOSTS
from rlx.cli.frame.output import console, narrate, patience, print_json, print_text
from rlx.cli.frame.site_options import ImageOption, narrate_made
from rlx.cli.text.table_text import fitted
from rlx.errors import ExitCode, RlxError, UsageError
from rlx.model import LOCAL
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.api.status import Reindexed
    from rlx.hosts import Host
    from rlx.hosts.inventory.host import HostFile
    from rlx.hosts.inventory.trusted import Project

hosts = typer.Typer(
    name="hosts",
    help="Manage hosts: list, show, add, start, remove, trust, reindex.",
    rich_markup_mode=None,
)
_Name = Annotated[str, typer.Argument(help="Name of the host.", autocompletion=HOSTS)]
_Proxies = Annotated[list[str] | None, typer.Option(metavar="VARIABLE=SECRET", help="https_proxy=NAME of the secret.")]
_Partition = Annotated[
    str | None,
    typer.Option(metavar="PARTITION", help="The host is a login node of Slurm: runs are jobs in this partition."),
]
_Sbatch = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Options of a job: time, qos, mem, cpus_per_task, ...")
]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
_Project = Annotated[bool, typer.Option("--project", help="The project's rlx.yaml instead of your own hosts.yaml.")]


@hosts.callback(invoke_without_command=True)
def _alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


@hosts.command("list")
def list_(as_json: _Json = False) -> None:
    """List the known hosts; `local` is always there."""
    from rlx.hosts import default_host, known_hosts

    known, default = known_hosts(), default_host()
    if as_json:
        print_json({"default_host": default.host, "hosts": [_document(host) for host in known.values()]})
        return
    _warn_of_untrusted()

    containers = [f"from {host.image.name}" if host.image else host.container or "" for host in known.values()]
    columns = [
        Column("name", [f"{name} (default)" if name == default.host else name for name in known], flows=True),
        Column("ssh", [host.ssh or "this machine" for host in known.values()], flows=True),
        Column(
            "container",
            containers,
            flows=True,
        ),
        Column("root", [host.root for host in known.values()], rank=1, flows=True),
        Column("device", [_device(host) for host in known.values()], flows=True),
        Column("written in", [host.written for host in known.values()], rank=2, flows=True),
    ]
    out = console()
    out.print(fitted(Table(columns), out.width))


def _warn_of_untrusted() -> None:
    from rlx.hosts.inventory.trusted import TRUST_FIX, read_project

    if (project := read_project()) and not project.is_trusted:
        narrate(f"rlx: warning: {project.path} is ignored: you have not trusted its content; {TRUST_FIX}")


@hosts.command()
def show(name: _Name, as_json: _Json = False) -> None:
    """Show everything about one host, which may also be a bare ssh destination."""
    from rlx.hosts import known_host

    host = known_host(name)
    if as_json:
        print_json({"host": _document(host)})
        return
    for key, value in (_document(host) | {"device": _device(host)}).items():
        # As in the entry, the name of the scheduler is the key of its settings.
        key, value = (value["scheduler"], value["settings"]) if key == "batch" and value else (key, value)
        print(f"{key:10} {_words(value)}")


@hosts.command()
def add(
    name: _Name,
    destination: Annotated[str, typer.Argument(help="USER@HOST, ssh://USER@HOST:PORT, or a name of your ssh config.")],
    transport: Annotated[str | None, typer.Option(help="openssh (default) or paramiko.")] = None,
    container: Annotated[str | None, typer.Option(help="Running container that the runs go into.")] = None,
    image: Annotated[
        str | None, typer.Option(help="Image there, from which rlx makes a container for the runs.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="Folder of the runs on the host. Default: ~/rlx.")] = None,
    device: Annotated[str | None, typer.Option(metavar="KIND[:COUNT]", help="npu:8, cuda:4 or cpu.")] = None,
    setup: Annotated[list[str] | None, typer.Option(help="Script to source first (repeatable).")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Variable (repeatable).")] = None,
    proxy: _Proxies = None,
    leases: Annotated[str | None, typer.Option(help="Folder of device locks, one for all users of the host.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Address by which other hosts reach it, for runs of several nodes.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="Interpreter there that recipes may name; preflight may run it.")
    ] = None,
    slurm: _Partition = None,
    gres: Annotated[str | None, typer.Option(metavar="NAME:COUNT", help="Devices of a node in Slurm: npu:8.")] = None,
    account: Annotated[str | None, typer.Option(help="Account that Slurm charges.")] = None,
    sbatch: _Sbatch = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="The host is the head of a Ray cluster with this dashboard: runs are its jobs."
        ),
    ] = None,
    project: _Project = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an entry of that name.")] = False,
) -> None:
    """Add a host to your hosts.yaml. The host itself is not queried.

    Prints which folder the runs will have there, and why: --root, or what a launch chooses without it.
    """
    from rlx.hosts.inventory.host_edit import put_host

    settings: dict[str, Any] = {
        "ssh": destination,
        "transport": transport,
        "container": container,
        "image": image,
        "root": root,
        "device": _device_entry(device) if device else None,
        "setup": setup,
        "env": _pairs("--env", env or (), str),
        "proxies": _pairs("--proxy", proxy or (), lambda secret: {"secret": secret}),
        "leases": leases,
        "address": address,
        "python": python,
        "slurm": _slurm_entry(slurm, gres, account, sbatch or ()),
        "ray": {"address": ray} if ray else None,
    }
    path = _file(project)
    with _kept_trust(project):
        put_host(path, name, {key: value for key, value in settings.items() if value}, replace=replace)
    narrate(f"rlx: {name} is in {path}; launch: rlx launch RECIPE --host {name}")
    narrate(f"rlx: folder of the runs there: {_root_words(name, root, container or image)}")
    _warn_if_hidden(name, path)


@hosts.command()
def start(name: _Name, image: ImageOption = None, as_json: _Json = False) -> None:
    """Make the container from the host's image, as a launch does, unless it is already running. Prints its name."""
    from rlx.api.hosts import start_container
    from rlx.model import to_jsonable

    with patience(f"starting a container on {name} …"):
        made = start_container(name, image)
    if as_json:
        print_json({"container": to_jsonable(made)})
        return
    narrate_made(made)
    print(made.name)


@hosts.command()
def remove(name: _Name, project: _Project = False) -> None:
    """Remove a host from your hosts.yaml. Its runs and their files stay as they are."""
    from rlx.hosts import default_host, known_hosts
    from rlx.hosts.inventory.host_edit import remove_host

    path = _file(project)
    with _kept_trust(project):
        remove_host(path, name)
    narrate(f"rlx: {name} is removed from {path}; rlx status still knows its runs")
    if name not in known_hosts() and (default := default_host()).host == name:
        narrate(f"rlx: warning: {default.written} still names it as the default")


@hosts.command()
def reindex(as_json: _Json = False) -> None:
    """Rebuild the index of runs from your hosts, if the old one cannot be used.

    The old one is kept beside it, with the time in its name: only it has the digests of manifests and containers at
    their launch, and launches under way. Exit code 4 if a host does not answer.
    """
    from rlx.api.status import reindex as build_anew

    with patience():
        done = build_anew(narrate)
    if as_json:
        copy = str(done.copy) if done.copy else None
        print_json({"copy": copy, "found": done.found, "silent": done.silent, "missing": done.missing})
    else:
        _tell_reindexed(done)
    if done.silent:
        raise typer.Exit(ExitCode.UNREACHABLE)


def _tell_reindexed(done: Reindexed) -> None:
    for host, count in done.found.items():
        if host not in done.silent:
            print_text(f"{host}: {count} run{'s' * (count != 1)}")
    for host, why in done.silent.items():
        narrate(f"NOT asked: {why}")
        narrate(f"  fix: rlx status --host {host} adds its runs when it answers")
    if done.copy:
        narrate(f"rlx: the previous index is {done.copy}; only it has digests, containers and launches under way")
    for run_id, host in done.missing.items():
        narrate(f"found on no host: {run_id}" + (f", which was on {host}" if host else ""))


@hosts.command()
def trust(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Show what the project's rlx.yaml would change, and trust its content from now on."""
    import sys

    from rlx.hosts import user_file
    from rlx.hosts.inventory.host_file import read_host_file
    from rlx.hosts.inventory.trusted import own_names, read_project

    project = read_project()
    if project is None:
        raise UsageError("there is no rlx.yaml here", "it is looked for from the working directory up to your home")
    user, content = read_host_file(user_file()), project.content()
    replaces = own_names(content, user)
    print_text(project_text(project, content, user, replaces))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                f"trusting {project.path} needs an answer, and stdin is no terminal", "rlx hosts trust -y trusts it"
            )
        typer.confirm("Trust this content?", abort=True, err=True)
    project.trust(replaces)
    narrate(f"rlx: {project.path} is trusted as it is now")


def _file(project: bool) -> Path:
    from rlx.hosts import project_file, user_file
    from rlx.hosts.inventory.host_files import PROJECT_FILE

    return (project_file() or Path.cwd() / PROJECT_FILE) if project else user_file()


@contextmanager
def _kept_trust(project: bool) -> Iterator[None]:
    """Trust what rlx itself writes into a project's file, if it was trusted before or is new."""
    from rlx.hosts.inventory.trusted import read_project

    before = read_project() if project else None
    yield
    after = read_project() if project and (before is None or before.is_trusted) else None
    if after:
        after.trust((before and before.allowed()) or frozenset())


def _root_words(name: str, root: str | None, container: str | None) -> str:
    """Return which folder a launch takes on a host, and why: with a container, one that both share by a mount."""
    from rlx.model import Site

    chosen = root or Site().root
    if not container:
        return f"{chosen} ({'--root' if root else 'the default; --root names another'})"
    if root:
        return f"{root} (--root); {container} must mount it, at any path"
    return (
        f"{chosen} if {container} mounts it; else rlx or rlx-USER in a mount that has runs, in one of your home, "
        f"or in the one with the most space: rlx plan RECIPE --host {name} shows which, --root decides"
    )


def _warn_if_hidden(name: str, path: Path) -> None:
    from rlx.hosts import known_hosts
    from rlx.hosts.inventory.trusted import TRUST_FIX

    host = known_hosts().get(name)
    if host is None:
        narrate(f"rlx: warning: {path} is not trusted, so this is ignored; {TRUST_FIX}")
    elif host.written.rpartition(":")[0] != str(path):
        narrate(f"rlx: warning: {host.written} also has a host of that name, and takes precedence")


def _device_entry(text: str) -> dict[str, str | int]:
    kind, colon, count = text.partition(":")
    return {"kind": kind, "count": int(count) if count.isdecimal() else count} if colon else {"kind": kind}


def _slurm_entry(partition: str | None, gres: str | None, account: str | None, pairs: Sequence[str]) -> dict[str, str]:
    options = _pairs("--sbatch", pairs, str)
    if partition is None and (gres or account or options):
        raise UsageError("--gres, --account and --sbatch are for a host with Slurm", "add --slurm PARTITION")
    named = {"partition": partition, "gres": gres, "account": account}
    return {key: value for key, value in named.items() if value} | options


def _pairs(option: str, texts: Sequence[str], value_of: Callable[[str], Any]) -> dict[str, Any]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            # The text is not shown: it may be a password.
            raise UsageError(f"{option} takes NAME=VALUE", f"write {option} NAME=VALUE")
        pairs[name] = value_of(value)
    return pairs


def _document(host: Host) -> dict[str, Any]:
    from rlx.model import to_jsonable

    document: dict[str, Any] = to_jsonable(host)
    return document


def _device(host: Host) -> str:
    if host.device is None:
        return ""
    return host.device.kind if host.device.count is None else f"{host.device.count} × {host.device.kind}"


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "-"
    return ", ".join(value) or "-" if isinstance(value, list) else str(value or "-")


def project_text(project: Project, content: HostFile, user: HostFile, replaces: frozenset[str]) -> str:
    """Return every host with its destination and all that would run or be sent there, and the default host."""
    lines = [f"{project.path} would change:"]
    for host in content.hosts.values():
        lines += [f"  host {host.name}: {_novelty(host, user, replaces)}", *_settings(host)]
    if defaults := content.defaults:
        yours = f" (yours: {user.defaults.host})" if user.defaults else ""
        container = f", container {defaults.container}" if defaults.container else ""
        lines.append(f"  default host: {defaults.host}{container}{yours}")
    return "\n".join(lines if len(lines) > 1 else [f"{project.path} changes nothing"])


def _novelty(host: Host, user: HostFile, replaces: frozenset[str]) -> str:
    if host.name not in replaces:
        return "new"
    if own := user.hosts.get(host.name):
        return f"REPLACES yours ({own.ssh or 'this machine'}, {own.written})"
    return "CHANGES this machine" if host.name == LOCAL.host else "REPLACES the one of your ssh config"


def _where_submitted(host: Host) -> str:
    """Return where jobs go in the words of the scheduler, or its name alone if it cannot be loaded."""
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
        "makes a container from": host.image and host.image.name,
        "runs below": host.root,
        "locks in": host.leases,
        "address": host.address,
        "submits jobs to": _where_submitted(host),
    }
    yield from (f"    {name} {value}" for name, value in single.items() if value)
    yield from (f"    mounts {mount} in it" for mount in (host.image.mounts if host.image else ()))
    yield from (f"    runs first: {script}" for script in host.setup)
    if host.python:
        yield f"    preflight may start {host.python}"
    yield from (f"    sets {name}={value}" for name, value in host.env.items())
    yield from (f"    receives the secret {secret} as {name}" for name, secret in host.proxies.items())
