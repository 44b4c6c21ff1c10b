"""Pack a launch into one archive, which is sent on the stdin of one command; check what can be packed.

Secrets are only in the `env` files of the archive: not in an argument, which every user of the host can read, nor in
the manifest or the log.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import io
import os
import re
import secrets
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from rlx.errors import RlxError, UsageError
from rlx.hosts.inventory.host_values import address_problem
from rlx.model import PLAN_SCHEMA_VERSION, Cluster, LaunchPlan, PlannedFile, Site
from rlx.model.run_dir import (
    ATTEMPTS_DIR,
    BLOCK_FILE,
    CHECKPOINTS_DIR,
    CLUSTER_FILE,
    CONTAINER_FILE,
    DEVICES_FILE,
    DOCKER_FILE,
    ENV_FILE,
    EVENTS_DIR,
    FOREIGN_FILE,
    HOLDER_FILE,
    HOLDER_LOG_FILE,
    IMAGE_FILE,
    JOB_FILE,
    LATEST_LINK,
    LAUNCH_FILE,
    LEADER_FILE,
    LOG_FILE,
    MANIFEST_FILE,
    MASK_FILE,
    REQUEST_FILE,
    RESERVED_FILE,
    STATE_DIR,
    STOP_FILE,
    SUPERVISE_FILE,
    SUPERVISOR_FILE,
    TICKET_FILE,
    VALIDATION_DIR,
)
from rlx.payload.mask_secrets import spellings
from rlx.resources import payload_folder
from rlx.runs import supervisor
from rlx.runs.index.tables import Move
from rlx.runs.manifest import manifest_digest, render_manifest
from rlx.runs.run import RunRef, container_of
from rlx.schedulers.protocol import request_of
from rlx.schedulers.registry import name_of

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_NAMES = {
    MANIFEST_FILE,
    SUPERVISE_FILE,
    ENV_FILE,
    MASK_FILE,
    HOLDER_FILE,
    HOLDER_LOG_FILE,
    TICKET_FILE,
    STOP_FILE,
} | {
    BLOCK_FILE,
    CLUSTER_FILE,
    CONTAINER_FILE,
    IMAGE_FILE,
    DEVICES_FILE,
    FOREIGN_FILE,
    REQUEST_FILE,
    JOB_FILE,
    DOCKER_FILE,
    ATTEMPTS_DIR,
    LATEST_LINK,
    CHECKPOINTS_DIR,
}
_EXIT_RECORD_BYTES = 63
# Linux takes 128 kB for a variable with its name (MAX_ARG_STRLEN); a program with a longer one cannot be started.
_MOST_BYTES_A_SECRET = 120 << 10
# The home directory of another user (`~name`) is something that only a login shell can look up.
_ROOT = re.compile(r"(/|~/|~$)[^\n\0]*")
_ABSOLUTE = re.compile(r"/[^\n\0]*")
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
_PLAN_AGAIN = "write it again with rlx plan RECIPE --json"
_NOT_LOCATED = "the container's shared folder is found at launch: rlx launch --plan FILE --container NAME"
RAY_TOKEN = "RLX_RAY_TOKEN"
# Below the ports that Linux assigns automatically (32768 and up).
_FIRST_PORT, _PORTS = 20000, 10000
_KEY = "cluster.key"


@dataclass(frozen=True, slots=True)
class Shipped:
    """One node of a run on its way to a host. `position`: of the run in its launch.

    `block`: the name of its block on that host, empty for a run of no sweep. `moved`: its earlier moves.
    """

    plan: LaunchPlan
    ref: RunRef
    position: int
    block: str = ""
    moved: tuple[Move, ...] = ()


def block_name(launch_id: str, seed: int, moves: int) -> str:
    """Name a block. The name changes with each move, so that a block may return to an earlier host."""
    return f"{launch_id}-s{seed}-{moves}"


# ---- what can be packed ----------------------------------------------------------------------------------------------


def check_plan(plan: LaunchPlan) -> None:
    """Raise UsageError for a plan that cannot become a run directory; a plan may come from a file."""
    for label, name in (("name", plan.name), ("arm", plan.arm), ("device kind", plan.device_kind)):
        if not _SAFE_NAME.fullmatch(name):
            raise UsageError(f"the plan's {label} is {name!r}", "use up to 100 letters, digits and . _ - (not first)")
    if plan.schema_version != PLAN_SCHEMA_VERSION:
        raise UsageError(f"{plan.run_name}: a plan of schema version {plan.schema_version}", _PLAN_AGAIN)
    _check_container(plan)
    _check_cluster(plan)
    _check_devices(plan)
    for variable in plan.site.proxies:
        if not _VARIABLE.fullmatch(variable):
            raise UsageError(f"the plan's proxy {variable!r} is not a valid name of an environment variable")
    request_of(plan.site.batch).check(plan)
    if not _ROOT.fullmatch(plan.site.root):
        raise UsageError(f"the root {plan.site.root!r} is no absolute path", "begin it with / or ~/, on one line")
    _check_files(plan)


def _check_container(plan: LaunchPlan) -> None:
    site = plan.site
    if site.container is None or site.place.inside is not None:
        return
    if site.container_root is None or not _CONTAINER_ID.fullmatch(site.container_id or ""):
        raise UsageError(f"{plan.run_name}: the container {site.container!r} has not been inspected yet", _NOT_LOCATED)
    if not _ABSOLUTE.fullmatch(site.container_root):
        raise UsageError(f"the container's root {site.container_root!r} is no absolute path", _NOT_LOCATED)


def _check_cluster(plan: LaunchPlan) -> None:
    numbers = [(node.cluster.node, node.cluster.nodes) if node.cluster else (0, 1) for node in plan.nodes]
    if plan.workers and numbers != [(node, len(numbers)) for node in range(len(numbers))]:
        raise UsageError(f"{plan.run_name}: the plan's workers are not numbered as its nodes", _PLAN_AGAIN)
    if plan.cluster is not None and plan.site.batch is None and address_problem(plan.cluster.head):
        raise UsageError(f"{plan.run_name}: the head's address {plan.cluster.head!r} is none", _PLAN_AGAIN)


def _check_devices(plan: LaunchPlan) -> None:
    listed = plan.device_list
    if plan.devices < 1:
        raise UsageError(f"{plan.run_name}: the plan needs {plan.devices} devices", "a run leases at least one")
    if listed and (len(set(listed)) != plan.devices or len(listed) != plan.devices or min(listed) < 0):
        raise UsageError(
            f"{plan.run_name}: the plan needs {plan.devices} devices and lists {', '.join(map(str, listed))}",
            "name each device once, and as many as the run uses",
        )


def _check_files(plan: LaunchPlan) -> None:
    paths = [file.path for file in plan.files]
    for file in plan.files:
        _check_path(file.path)
        if paths.count(file.path) > 1:
            raise UsageError(f"the plan has two files {file.path!r}")
        if file.mode & ~0o777:
            raise UsageError(f"the plan's file {file.path!r} has the mode {file.mode:o}", "use 0600 or 0700")
        if not _can_be_written(file.content):
            raise UsageError(f"the plan's file {file.path!r} contains characters that cannot be written", _PLAN_AGAIN)
    if LAUNCH_FILE not in paths:
        raise UsageError(f"{plan.run_name}: the plan has no {LAUNCH_FILE}")


def _can_be_written(content: str) -> bool:
    try:
        content.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _check_path(text: str) -> None:
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in text:
        raise UsageError(f"the plan's file {text!r} is outside the run directory")
    if path.parts[0] in _OWN_NAMES:
        raise UsageError(f"the plan's file {text!r} would replace a file of rlx")


def pick_secrets(plan: LaunchPlan, values: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that the plan names. Raises UsageError for one that is missing or cannot be a variable."""
    for name in plan.secret_names:
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"the secret {name!r} is not a valid name of an environment variable")
        if not values.get(name):
            raise UsageError(
                f"the secret {name} has no value", f"export {name}, or name a file that has it with --secret-file"
            )
        if "\0" in values[name]:
            raise UsageError(f"the secret {name} contains a NUL byte, which no environment can hold")
        if len(values[name].encode(errors="surrogateescape")) > _MOST_BYTES_A_SECRET:
            raise UsageError(
                f"the secret {name} has more than {_MOST_BYTES_A_SECRET >> 10} kB, too much for a variable",
                "put it into a file on the host, and name that in the recipe",
            )
    return {name: values[name] for name in plan.secret_names}


def short_secrets(plan: LaunchPlan, values: Mapping[str, str]) -> list[str]:
    """Return the secrets whose values are too short to be masked: they would occur in a log by chance."""
    picked = pick_secrets(plan, values)
    return [name for name, value in picked.items() if not spellings(value.encode(errors="surrogateescape"))]


def _secret_variables(plan: LaunchPlan, values: Mapping[str, str]) -> dict[str, str]:
    """Write what the env file exports: the recipe's secrets by their names, and proxies with those they refer to."""
    picked = pick_secrets(plan, values)
    proxies = {variable: picked[name] for variable, name in plan.site.proxies.items()}
    return proxies | {name: picked[name] for name in plan.secrets}


def pack(
    runs: Sequence[Shipped], secrets: Mapping[str, str], tokens: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Pack supervise.sh, a folder for each run, and `order` last, which proves that all arrived; gzipped.

    Runs get their supervise.sh on the host, from the one of the archive: gzip looks back 32 KiB, less than the script
    has. `tokens` are those of the runs' Ray clusters by the ids of their heads, for runs of several nodes.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, PlannedFile(SUPERVISE_FILE, supervisor.script(name_of(runs[0].plan.site.batch))))
        for run in runs:
            token = {RAY_TOKEN: tokens[run.ref.head_id]} if run.plan.cluster else {}
            _add_run(archive, run, _secret_variables(run.plan, secrets) | token)
        _add(archive, PlannedFile("order", _order(runs)))
    # A new connection sends 14 kB at first, and twice as much with each round trip.
    return gzip.compress(buffer.getvalue(), compresslevel=6)


def _order(runs: Sequence[Shipped]) -> str:
    lines = [f"{run.ref.run_id} {run.plan.device_kind} {device_request(run.plan)}" for run in runs]
    return "\n".join([*lines, "end\n"])


def sent_manifests(runs: Sequence[Shipped]) -> list[tuple[str, str, str]]:
    """Return run id, digest of the manifest and container of each packed run, for the index to keep."""
    return [(run.ref.run_id, manifest_digest(_manifest(run)), run.ref.container) for run in runs]


def _manifest(run: Shipped) -> str:
    return render_manifest(run.ref, run.position, run.plan, run.moved)


def shipment_digest(runs: Sequence[Shipped]) -> str:
    """Return the SHA-256 of what the host executes: supervise.sh and `order`, concatenated."""
    return order_digest(_order(runs), runs[0].plan.site)


def order_digest(order: str, site: Site) -> str:
    """Return the SHA-256 of supervise.sh and an order for a site."""
    return hashlib.sha256((supervisor.script(name_of(site.batch)) + order).encode()).hexdigest()


def shared_container(site: Site) -> tuple[str, str]:
    """Return the id of the container that shares the folder of the runs, and its path of that folder; empty without."""
    container = container_of(site)
    return (container, _inner_runs(site)) if container else ("", "")


def _inner_runs(site: Site) -> str:
    return f"{(site.container_root or '').rstrip('/')}/runs"


def device_request(plan: LaunchPlan) -> str:
    if plan.site.batch is not None:
        return str(plan.devices)
    return "=" + ",".join(map(str, sorted(plan.device_list))) if plan.device_list else str(plan.devices)


def _add_run(archive: tarfile.TarFile, run: Shipped, variables: Mapping[str, str]) -> None:
    first, ref = f"{ATTEMPTS_DIR}/1", run.ref
    for folder in (ref.run_id, f"{ref.run_id}/{ATTEMPTS_DIR}"):
        _add_folder(archive, folder)
    _add_attempt(archive, f"{ref.run_id}/{first}")
    _add_folder(archive, f"{ref.run_id}/{CHECKPOINTS_DIR}")
    _add_link(archive, f"{ref.run_id}/{LATEST_LINK}", first)
    for file in _files(run, variables):
        _add(archive, PlannedFile(f"{ref.run_id}/{file.path}", file.content, file.mode))


def _add_attempt(archive: tarfile.TarFile, folder: str) -> None:
    """Add the folder of an attempt that has not begun."""
    _add_folder(archive, folder)
    for name in (EVENTS_DIR, VALIDATION_DIR, STATE_DIR):
        _add_folder(archive, f"{folder}/{name}")
    _add(archive, PlannedFile(f"{folder}/{LOG_FILE}", ""))
    # Space for the exit record, reserved early: a full disk must not hide how the run ended.
    for writer in (LEADER_FILE, SUPERVISOR_FILE, STOP_FILE):
        reserved = f"{folder}/{STATE_DIR}/{RESERVED_FILE}.{writer}"
        _add(archive, PlannedFile(reserved, " " * (_EXIT_RECORD_BYTES - 1) + "\n"))


def pack_attempt(plan: LaunchPlan, secrets: Mapping[str, str], order: str, files: Mapping[str, str]) -> bytes:
    """Pack a further attempt for supervise.sh retry, gzipped. `files`: of the attempt, by their names.

    The options for a batch scheduler are sent again, because the run may have changed its files. Raises UsageError for
    options that are not allowed.
    """
    request_of(plan.site.batch).check(plan)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in (
            PlannedFile(SUPERVISE_FILE, supervisor.script(name_of(plan.site.batch)), 0o700),
            *request_files(plan),
        ):
            _add(archive, file)
        _add_attempt(archive, "attempt")
        if variables := _secret_variables(plan, secrets):
            _add(archive, PlannedFile(ENV_FILE, env_file(variables)))
            _add(archive, PlannedFile(MASK_FILE, _mask_program()))
        for name, content in files.items():
            _add(archive, PlannedFile(f"attempt/{name}", content))
        _add(archive, PlannedFile("order", order))
    return gzip.compress(buffer.getvalue(), compresslevel=6)


def request_files(plan: LaunchPlan) -> list[PlannedFile]:
    """Return the files of a run that becomes a job: the first names its scheduler and the options, one per line."""
    if plan.site.batch is None:
        return []
    scheduler = request_of(plan.site.batch)
    lines = (name_of(plan.site.batch), *scheduler.options(plan))
    return [PlannedFile(REQUEST_FILE, "".join(f"{line}\n" for line in lines)), *scheduler.files(plan)]


def _files(run: Shipped, variables: Mapping[str, str]) -> list[PlannedFile]:
    plan, ref = run.plan, run.ref
    files = [PlannedFile(MANIFEST_FILE, _manifest(run))]
    if run.block:
        files.append(PlannedFile(BLOCK_FILE, f"{run.block}\n"))
    files += request_files(plan)
    if plan.site.image is not None:
        files.append(PlannedFile(IMAGE_FILE, f"{plan.site.image}\n"))
    if plan.site.container_root is not None:
        files.append(PlannedFile(CONTAINER_FILE, _container_file(plan.site, ref)))
    if plan.cluster is not None:
        files.append(PlannedFile(CLUSTER_FILE, _cluster_file(plan.cluster, ref)))
    if variables:
        files += [PlannedFile(ENV_FILE, env_file(variables)), PlannedFile(MASK_FILE, _mask_program())]
    return [*files, *plan.files]


def _mask_program() -> str:
    return (payload_folder() / MASK_FILE).read_text(encoding="utf-8")


def _container_file(site: Site, ref: RunRef) -> str:
    """Write for readers of the run directory where its processes are: the container, and the path inside it."""
    return f"{site.container_id}\n{_inner_runs(site)}/{ref.run_id}\n"


def env_file(values: Mapping[str, str]) -> str:
    """Write variables as a POSIX shell sources them. Bytes that are no UTF-8 are surrogates, as in os.environ."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def _add(archive: tarfile.TarFile, file: PlannedFile) -> None:
    # Environment variables and arguments may hold any bytes; Python carries them as surrogates.
    content = file.content.encode(errors="surrogateescape")
    entry = tarfile.TarInfo(file.path)
    entry.size = len(content)
    entry.mode = file.mode
    archive.addfile(entry, io.BytesIO(content))


def _add_folder(archive: tarfile.TarFile, path: str) -> None:
    entry = tarfile.TarInfo(path)
    entry.type = tarfile.DIRTYPE
    entry.mode = 0o700
    archive.addfile(entry)


def _add_link(archive: tarfile.TarFile, path: str, target: str) -> None:
    entry = tarfile.TarInfo(path)
    entry.type = tarfile.SYMTYPE
    entry.linkname = target
    archive.addfile(entry)


def _cluster_file(cluster: Cluster, ref: RunRef) -> str:
    """Write `NODE NODES ADDRESS:PORT FOLDER` for supervise.sh. Port and folder follow from the run's id.

    In a job the head writes its address there, which is not known before. The folder below /tmp has the same name on
    all nodes: Ray uses that of its head, and a back-end has one path for all.
    """
    digest = hashlib.sha256(ref.head_id.encode()).hexdigest()
    port = _FIRST_PORT + int(digest, 16) % _PORTS
    return f"{cluster.node} {cluster.nodes} {cluster.head}:{port} /tmp/rlx-{digest[:6]}\n"


def ray_tokens(home: Path, refs: Sequence[RunRef]) -> dict[str, str]:
    """Return the tokens of these runs' Ray clusters by the ids of their heads, the same at each call. Raises RlxError.

    They follow from the ids and a key in rlx's home, so that an interrupted launch can be completed.
    """
    key = _key(home / _KEY)
    return {ref.run_id: hmac.new(key, ref.run_id.encode(), hashlib.sha256).hexdigest() for ref in refs if not ref.node}


def _key(path: Path) -> bytes:
    """Read the key, or make it, readable by its user only; the first rlx makes it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not path.exists():
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
            with suppress(FileExistsError):
                os.link(scratch, path)
            scratch.unlink()
        return path.read_bytes()
    except OSError as error:
        raise RlxError(f"{path}: {error.strerror}", "rlx keeps a key for the tokens of runs there") from None
