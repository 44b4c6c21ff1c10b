"""Query what a launch script would find when it starts Python: versions, NPUs, model and data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rlx.hosts.sent_python import BARE_PATH
from rlx.model import Cmd, Finding, Severity, Site
from rlx.planning.data_files import overlap_finding, unmeasured_overlap
from rlx.planning.host_requirements import DataFile, host_of, hosts
from rlx.planning.probing.probe import Probe, ProbeFacts, ProbeResults, Question, json_objects, last_line, script
from rlx.planning.probing.versions import release, version_findings
from rlx.resources import payload_folder


def parse_packages(text: str) -> dict[str, Any]:
    """Parse versions of Python and packages, and the places of modules; `error` if Python did not start."""
    objects = json_objects(text)
    if not objects:
        return {"error": last_line(text) or "Python printed nothing"}
    found = objects[-1]
    return {
        "python": _text(found.get("python")),
        "executable": _text(found.get("executable")),
        "packages": _texts(found.get("packages")),
        "locations": _texts(found.get("locations")),
    }


def parse_accelerator(text: str) -> dict[str, Any]:
    """Parse the completed steps; `failed` has the others with their errors."""
    steps = {name: value for found in json_objects(text) for name, value in found.items()}
    failed = {name: _text(value.get("error")) or "" for name, value in steps.items() if isinstance(value, dict)}
    done = {name: value for name, value in steps.items() if isinstance(value, bool | int | str)}
    return {**done, "failed": failed}


def parse_paths(text: str) -> dict[str, Any]:
    """Parse the model and data files."""
    return {"paths": [_path(found) for found in json_objects(text) if isinstance(found.get("path"), str)]}


def parse_overlap(text: str) -> dict[str, Any]:
    """Parse how many validation rows are also training rows, per pair of files; `unread`: why this is not known."""
    return {"pairs": [_pair(found) for found in json_objects(text) if isinstance(found.get("train"), str)]}


def _pair(found: dict[str, Any]) -> dict[str, Any]:
    counts = {key: found[key] for key in ("exact", "near", "row", "train_row", "rows") if type(found.get(key)) is int}
    return {**{key: _text(found.get(key)) for key in ("train", "val", "unread")}, **counts}


def _path(found: dict[str, Any]) -> dict[str, Any]:
    texts = {key: _text(found.get(key)) for key in ("role", "path", "kind", "unread")}
    counts = {key: found[key] for key in ("bytes", "rows", "weight_files") if type(found.get(key)) is int}
    columns = found.get("columns")
    named = {"columns": [str(name) for name in columns]} if isinstance(columns, list) else {}
    marks: dict[str, bool] = {key: found[key] is True for key in ("config", "tracker") if key in found}
    functions = found.get("functions")
    takes = {"functions": _functions(functions)} if isinstance(functions, dict) else {}
    hub = found.get("hub")
    of_hub = (
        {"hub": {"cached": hub.get("cached") is True, "problem": _text(hub.get("problem"))}}
        if isinstance(hub, dict)
        else {}
    )
    return {**texts, **counts, **named, **marks, **takes, **of_hub}


def _functions(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Parse functions by name: `names` of arguments, the required ones (`wants`), and whether it takes `any` other."""
    return {
        name: {"names": _names(each.get("names")), "wants": _names(each.get("wants")), "any": each.get("any") is True}
        for name, each in found.items()
        if isinstance(each, dict)
    }


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> dict[str, str]:
    items = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in items if isinstance(text, str)}


PACKAGES = Probe("packages", "python.sh", parse_packages, limit_s=30, bash=True, beside=True)
# torch and torch_npu take long to load from a cold disk.
ACCELERATOR = Probe("accelerator", "python.sh", parse_accelerator, limit_s=120, bash=True, asks_devices=True)
PATHS = Probe("paths", "python.sh", parse_paths, limit_s=60, bash=True, beside=True)

OVERLAP_S, OVERLAP_ROWS = 20, 200_000
OVERLAP = Probe("overlap", "python.sh", parse_overlap, limit_s=OVERLAP_S + 10, bash=True, beside=True)


def overlap_arguments(pairs: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    """Write the arguments of scripts/overlap.py, which measures with the modules that `rlx data check` sends."""
    modules = [(name, script(payload_folder() / f"{name}.py")) for name in ("data_rows", "data_overlap")]
    return json.dumps(modules), str(OVERLAP_S), str(OVERLAP_ROWS), *(word for pair in pairs for word in pair)


def python_question(
    probe: Probe, program: str, site: Site, python: str, workdir: str | None, *arguments: str
) -> Question:
    """Return the question that runs a program of scripts/ as the site's launch scripts would start it."""
    exports = "\n".join(Cmd("export", f"{name}={value}").raw() for name, value in site.env.items())
    setting = (python, workdir or "", ":".join(site.path_prefix), "\n".join(site.setup), exports)
    return Question(probe, (BARE_PATH, script(program), *setting, *arguments))


_MADE_HERE = "/.cache/rlx/tiny-cpu"


def python(results: ProbeResults) -> Iterator[Finding]:
    """Check Python. Without a recipe it may be missing: the host may only hold containers."""
    found = _packages(results)
    if "error" in found:
        needed = results.wanted.backend is not None or results.site.container is not None
        severity = Severity.ERROR if needed else Severity.NOTE
        message = f"{results.wanted.python} does not start: {found['error']}"
        fix = "set backend.python in the recipe, or the container that has it"
        yield Finding("RLX542", severity, message, fix, results.where)


def backend(results: ProbeResults) -> Iterator[Finding]:
    """Check that the recipe's back-end is installed in the recipe's version; the installed version counts."""
    found, wanted = _packages(results), results.wanted
    if "packages" not in found:
        return
    if wanted.backend is None:
        yield from _any_backend(found, results)
        return
    host = host_of(wanted.backend)
    if not host.packages:
        return
    version = found["packages"].get(host.packages[0])
    if version is None and host.packages[0] not in found["locations"]:
        message = f"{found['executable']} cannot import {wanted.backend}"
        fix = "choose the container or backend.python that has it, or set backend.workdir to its source"
        yield Finding("RLX543", Severity.ERROR, message, fix, results.where)
    elif host.is_numbered and version and wanted.version and release(version)[:3] != release(wanted.version)[:3]:
        message = f"the recipe is written for {wanted.backend} {wanted.version}; {version} is installed"
        fix = f'set backend.version: "{version}", and let rlx validate check its keys'
        yield Finding("RLX544", Severity.WARNING, message, fix, results.where)


def _any_backend(found: ProbeFacts, results: ProbeResults) -> Iterator[Finding]:
    """Report a host without any back-end, since without a recipe none in particular is required."""
    if found["packages"] or found["locations"]:
        return
    running = ", ".join(one["name"] for one in results.host.of("docker").get("running", ()))
    fix = "a recipe may name another place: backend.python, backend.workdir; rlx doctor HOST --recipe RECIPE checks it"
    if running and results.site.container is None:
        fix = f"is it in a container? --container C; running: {running}"
    none = ", ".join(f"no {host.name}" for host in hosts() if host.packages)
    message = f"{found['executable']} has {none} and none of their dependencies"
    yield Finding("RLX543", Severity.NOTE, message, fix, results.where)


def trackers(results: ProbeResults) -> Iterator[Finding]:
    """Warn of packages that a recipe's `track` names and the host lacks: the run goes on without them."""
    found = _packages(results)
    missing = [name for name in results.wanted.trackers if name not in found.get("locations", {})]
    for name in missing if "packages" in found else ():
        message = f"{found['executable']} cannot import {name}: the run would continue without it"
        fix = f"install it there, or remove it from track.to and export afterwards: rlx export RUN --to {name}"
        yield Finding("RLX473", Severity.WARNING, message, fix, results.where)


def versions(results: ProbeResults) -> Iterator[Finding]:
    found = dict(_packages(results).get("packages", {}))
    side = results.environment
    cann = side.of("ascend").get("cann") if side else None
    if cann:
        found["cann"] = cann
    for finding in version_findings(found):
        yield Finding(finding.id, finding.severity, finding.message, finding.fix, results.where)


def files(results: ProbeResults) -> Iterator[Finding]:
    """Check that model and data exist and match the recipe."""
    side = results.environment
    found = {(one["role"], one["path"]): one for one in (side.of("paths").get("paths") or ())} if side else {}
    own = host_of(results.wanted.backend).file_checks if results.wanted.backend else {}
    for wanted in results.wanted.files:
        facts = found.get((wanted.role, wanted.path))
        if facts is not None and wanted.role in own:
            for problem in own[wanted.role](wanted, facts):
                yield Finding(problem.id, Severity.ERROR, problem.message, problem.fix, results.where)
        elif facts is not None:
            yield from (_model if wanted.role == "model" else _data)(wanted, facts, results.where)


def overlap(results: ProbeResults) -> Iterator[Finding]:
    """Report the share of the validation that is also training data, as `rlx data check` does."""
    side = results.environment
    for pair in (side.of("overlap").get("pairs") or ()) if side else ():
        if pair["unread"]:
            yield unmeasured_overlap(pair["unread"], results.where)
        elif pair.get("rows") and (pair["exact"] or pair["near"]):
            yield overlap_finding(pair, pair["rows"], where=results.where)


def _model(wanted: DataFile, facts: ProbeFacts, where: str) -> Iterator[Finding]:
    if hub := facts.get("hub"):
        yield from _of_hub(wanted.path, hub, where)
    elif facts["kind"] != "folder":
        yield _missing(wanted, where)
    elif not facts.get("config") or not facts.get("weight_files"):
        lacks = "config.json" if not facts.get("config") else "weights (*.safetensors, *.bin)"
        message = f"model.path: {wanted.path} has no {lacks}"
        yield Finding("RLX550", Severity.ERROR, message, "copy the whole model there", where)


def _of_hub(name: str, hub: ProbeFacts, where: str) -> Iterator[Finding]:
    """Judge a model of the Hugging Face hub, of which nothing was downloaded."""
    if hub["cached"]:
        return
    if hub["problem"]:
        message = f"model.path: {name} is not in the cache of Hugging Face there, and {hub['problem']}"
        fix = f"hf download {name}, on a machine that reaches the hub, and copy the folder there; or name another model"
        yield Finding("RLX550", Severity.ERROR, message, fix, where)
    else:
        message = f"model.path: {name} is not in the cache of Hugging Face there: the run downloads it when it starts"
        yield Finding("RLX555", Severity.NOTE, message, f"hf download {name}, there, before the launch", where)


def _data(wanted: DataFile, facts: ProbeFacts, where: str) -> Iterator[Finding]:
    if facts["kind"] != "file":
        yield _missing(wanted, where)
        return
    label = f"data.{wanted.role}: {wanted.path}"
    rows, columns = facts.get("rows"), facts.get("columns")
    if facts.get("unread"):
        # Missing files are known; the content of a file needs Python with pyarrow.
        message = f"{label}: rows and columns are not known ({facts['unread']})"
        yield Finding("RLX553", Severity.NOTE, message, "pip install pyarrow, in that environment", where)
    if rows is not None and wanted.rows is not None and rows != wanted.rows:
        message = f"{label} has {rows} rows; the recipe says {wanted.rows}"
        fix = f"set data.{wanted.role}_rows to {rows}, or name the right file"
        yield Finding("RLX551", Severity.WARNING, message, fix, where)
    if columns is not None and wanted.key is not None and wanted.key not in columns:
        message = f"{label} has no column {wanted.key!r}; it has {', '.join(columns)}"
        yield Finding("RLX552", Severity.ERROR, message, "set data.prompt_key to one of them", where)


def _missing(wanted: DataFile, where: str) -> Finding:
    key = "model.path" if wanted.role == "model" else f"data.{wanted.role}"
    kind = "folder" if wanted.role == "model" else "file"
    fix = "copy it there, or mount the folder that holds it into the container"
    if _MADE_HERE in wanted.path:
        fix = "rlx data tiny-cpu makes it, with the same --host and --container"
    return Finding("RLX550", Severity.ERROR, f"{key}: there is no {kind} {wanted.path}", fix, where)


def _packages(results: ProbeResults) -> ProbeFacts:
    return results.environment.of("packages") if results.environment else {}
