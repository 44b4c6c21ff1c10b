"""Findings on what a run would train with: Python, packages, versions, model and data."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.model import Finding, Severity
from rlx.planning.checks.versions import release, version_findings
from rlx.planning.data_files import overlap_finding, unmeasured_overlap
from rlx.planning.probing.examined import Examined
from rlx.planning.probing.probe import Facts
from rlx.planning.wanted import DataFile, Flaw, host_of, hosts

_MADE_HERE = "/.cache/rlx/tiny-cpu"


def python(examined: Examined) -> Iterator[Finding]:
    """Judge Python. Without a recipe a host without it is no fault: it may only hold containers."""
    found = _packages(examined)
    if "error" in found:
        needed = examined.wanted.backend is not None or examined.site.container is not None
        severity = Severity.ERROR if needed else Severity.NOTE
        message = f"{examined.wanted.python} does not start: {found['error']}"
        fix = "set backend.python in the recipe, or the container that has it"
        yield Finding("RLX542", severity, message, fix, examined.where)


def backend(examined: Examined) -> Iterator[Finding]:
    """The back-end that the recipe names, in the version that it names. What is installed outranks the recipe."""
    found, wanted = _packages(examined), examined.wanted
    if "packages" not in found:
        return
    if wanted.backend is None:
        yield from _any_backend(found, examined)
        return
    host = host_of(wanted.backend)
    if not host.packages:
        return
    version = found["packages"].get(host.packages[0])
    if version is None and host.packages[0] not in found["locations"]:
        message = f"{wanted.backend} is not there for {found['executable']}"
        fix = "choose the container or backend.python that has it, or set backend.workdir to its source"
        yield Finding("RLX543", Severity.ERROR, message, fix, examined.where)
    elif host.is_numbered and version and wanted.version and release(version)[:3] != release(wanted.version)[:3]:
        message = f"the recipe is written for {wanted.backend} {wanted.version}; {version} is installed"
        fix = f'set backend.version: "{version}", and let rlx validate check its keys'
        yield Finding("RLX544", Severity.WARNING, message, fix, examined.where)


def _any_backend(found: Facts, examined: Examined) -> Iterator[Finding]:
    """Say that there is no back-end at all, because without a recipe nobody knows which one is meant."""
    if found["packages"] or found["locations"]:
        return
    running = ", ".join(one["name"] for one in examined.host.of("docker").get("running", ()))
    fix = (
        "a recipe may name another place of it: backend.python, backend.workdir; rlx doctor HOST --recipe RECIPE tells"
    )
    if running and examined.site.container is None:
        fix = f"is it in a container? --container C; running: {running}"
    none = ", ".join(f"no {host.name}" for host in hosts() if host.packages)
    message = f"{found['executable']} has {none} and nothing that they need"
    yield Finding("RLX543", Severity.NOTE, message, fix, examined.where)


def trackers(examined: Examined) -> Iterator[Finding]:
    """Warn of packages that a recipe's `track` names and the host lacks: the run goes on without them."""
    found = _packages(examined)
    missing = [name for name in examined.wanted.trackers if name not in found.get("locations", {})]
    for name in missing if "packages" in found else ():
        message = f"{name} is not there for {found['executable']}: the run would go on without it"
        fix = f"install it there, or leave it out of track.to and write it afterwards: rlx export RUN --to {name}"
        yield Finding("RLX473", Severity.WARNING, message, fix, examined.where)


def versions(examined: Examined) -> Iterator[Finding]:
    found = dict(_packages(examined).get("packages", {}))
    side = examined.environment
    cann = side.of("ascend").get("cann") if side else None
    if cann:
        found["cann"] = cann
    for finding in version_findings(found):
        yield Finding(finding.id, finding.severity, finding.message, finding.fix, examined.where)


def files(examined: Examined) -> Iterator[Finding]:
    """Model and data are there, and are what the recipe says."""
    side = examined.environment
    found = {(one["role"], one["path"]): one for one in (side.of("paths").get("paths") or ())} if side else {}
    own = host_of(examined.wanted.backend).file_checks if examined.wanted.backend else {}
    for wanted in examined.wanted.files:
        facts = found.get((wanted.role, wanted.path))
        if facts is not None and wanted.role in own:
            yield from (_error(flaw, examined.where) for flaw in own[wanted.role](wanted, facts))
        elif facts is not None:
            yield from (_model if wanted.role == "model" else _data)(wanted, facts, examined.where)


def overlap(examined: Examined) -> Iterator[Finding]:
    """Name the share of the validation that stands in the training data, as `rlx data check` does."""
    side = examined.environment
    for pair in (side.of("overlap").get("pairs") or ()) if side else ():
        if pair["unread"]:
            yield unmeasured_overlap(pair["unread"], examined.where)
        elif pair.get("rows") and (pair["exact"] or pair["near"]):
            yield overlap_finding(pair, pair["rows"], where=examined.where)


def _model(wanted: DataFile, facts: Facts, where: str) -> Iterator[Finding]:
    if facts["kind"] != "folder":
        yield _missing(wanted, where)
    elif not facts.get("config") or not facts.get("weight_files"):
        lacks = "config.json" if not facts.get("config") else "weights (*.safetensors, *.bin)"
        message = f"model.path: {wanted.path} has no {lacks}"
        yield Finding("RLX550", Severity.ERROR, message, "copy the whole model there", where)


def _data(wanted: DataFile, facts: Facts, where: str) -> Iterator[Finding]:
    if facts["kind"] != "file":
        yield _missing(wanted, where)
        return
    label = f"data.{wanted.role}: {wanted.path}"
    rows, columns = facts.get("rows"), facts.get("columns")
    if facts.get("unread"):
        # What a folder lacks is known; what a file holds is not: only Python with pyarrow could tell.
        message = f"{label}: rows and columns are not known ({facts['unread']})"
        yield Finding("RLX553", Severity.NOTE, message, "pip install pyarrow, in that environment", where)
    if rows is not None and wanted.rows is not None and rows != wanted.rows:
        message = f"{label} has {rows} rows; the recipe says {wanted.rows}"
        fix = f"set data.{wanted.role}_rows to {rows}, or name the file that is meant"
        yield Finding("RLX551", Severity.WARNING, message, fix, where)
    if columns is not None and wanted.key is not None and wanted.key not in columns:
        message = f"{label} has no column {wanted.key!r}; it has {', '.join(columns)}"
        yield Finding("RLX552", Severity.ERROR, message, "set data.prompt_key to one of them", where)


def _error(flaw: Flaw, where: str) -> Finding:
    return Finding(flaw.id, Severity.ERROR, flaw.message, flaw.fix, where)


def _missing(wanted: DataFile, where: str) -> Finding:
    key = "model.path" if wanted.role == "model" else f"data.{wanted.role}"
    kind = "folder" if wanted.role == "model" else "file"
    fix = "copy it there, or mount the folder that holds it into the container"
    if _MADE_HERE in wanted.path:
        fix = "rlx data tiny-cpu makes it, with the same --host and --container"
    return Finding("RLX550", Severity.ERROR, f"{key}: there is no {kind} {wanted.path}", fix, where)


def _packages(examined: Examined) -> Facts:
    return examined.environment.of("packages") if examined.environment else {}
