"""Parse what a launch script would find when it starts Python: versions, NPUs within reach, model and data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rlx.hosts.sent_python import BARE_PATH
from rlx.model import Cmd, Site
from rlx.planning.probing.probe import Probe, Question, json_objects, last_line, script
from rlx.resources import payload_folder


def parse_packages(text: str) -> dict[str, Any]:
    """Python's and the packages' versions, and where modules would be imported from; `error` if it did not start."""
    objects = json_objects(text)
    if not objects:
        return {"error": last_line(text) or "Python said nothing"}
    found = objects[-1]
    return {
        "python": _text(found.get("python")),
        "executable": _text(found.get("executable")),
        "packages": _texts(found.get("packages")),
        "locations": _texts(found.get("locations")),
    }


def parse_accelerator(text: str) -> dict[str, Any]:
    """The steps that were done; what failed is in `failed`, with its error."""
    steps = {name: value for found in json_objects(text) for name, value in found.items()}
    failed = {name: _text(value.get("error")) or "" for name, value in steps.items() if isinstance(value, dict)}
    done = {name: value for name, value in steps.items() if isinstance(value, bool | int | str)}
    return {**done, "failed": failed}


def parse_paths(text: str) -> dict[str, Any]:
    """Model and data files, as they were asked for."""
    return {"paths": [_path(found) for found in json_objects(text) if isinstance(found.get("path"), str)]}


def parse_overlap(text: str) -> dict[str, Any]:
    """Read how many validation rows stand in the training data, for each pair of files; `unread`: why not."""
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
    return {**texts, **counts, **named, **marks, **takes}


def _functions(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Functions by name: `names` of arguments, those that it `wants`, and whether it takes `any` other."""
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
    """Write the arguments of scripts/overlap.py, which measures by the modules that `rlx data check` sends."""
    modules = [(name, script(payload_folder() / f"{name}.py")) for name in ("data_rows", "data_overlap")]
    return json.dumps(modules), str(OVERLAP_S), str(OVERLAP_ROWS), *(word for pair in pairs for word in pair)


def python_question(
    probe: Probe, program: str, site: Site, python: str, workdir: str | None, *arguments: str
) -> Question:
    """Ask a program of scripts/ as the site's launch scripts would start it."""
    exports = "\n".join(Cmd("export", f"{name}={value}").raw() for name, value in site.env.items())
    setting = (python, workdir or "", ":".join(site.path_prefix), "\n".join(site.setup), exports)
    return Question(probe, (BARE_PATH, script(program), *setting, *arguments))
