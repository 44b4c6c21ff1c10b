"""manifest.json: what was launched, by whom, with the digest of every file. Written once, before the run starts."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlx import __version__
from rlx.errors import UsageError
from rlx.plan import LaunchPlan, Place, from_jsonable, to_jsonable
from rlx.runs import supervisor
from rlx.runs.run import RunRef
from rlx.runs.state import epoch_of

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """`created` is an ISO time in UTC, `created_epoch` the same in seconds. The files of `plan` have no content.

    `position` counts the runs of a launch from 0, in the order of the recipe's arms.
    """

    run_id: str
    launch_id: str
    position: int
    created: str
    created_epoch: float
    submitted_by: Mapping[str, str]
    digests: Mapping[str, str]
    plan: LaunchPlan


def render_manifest(ref: RunRef, position: int, plan: LaunchPlan) -> str:
    document = to_jsonable(plan)
    document["files"] = [
        {"path": file.path, "mode": file.mode, "sha256": hashlib.sha256(_bytes(file.content)).hexdigest()}
        for file in plan.files
    ]
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "run_id": ref.run_id,
        "launch_id": ref.launch_id,
        "position": position,
        "created": datetime.fromtimestamp(ref.created, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "created_epoch": ref.created,
        "submitted_by": {"user": _user(), "machine": platform.node(), "rlx": __version__},
        "plan": document,
    }
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a uid that no passwd file names.
        return "unknown"


def parse_manifest(text: str) -> Manifest | None:
    """None for anything that is not a manifest of this version."""
    try:
        document = json.loads(text)
        if document["schema_version"] != SCHEMA_VERSION:
            return None
        plan = document["plan"]
        digests = {file["path"]: file.pop("sha256") for file in plan["files"]}
        plan["files"] = [{**file, "content": ""} for file in plan["files"]]
        head: dict[str, Any] = {name: document[name] for name in _HEAD}
        manifest = Manifest(**head, digests=digests, plan=from_jsonable(LaunchPlan, plan))
        return manifest if _is_sound(manifest) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError):
        return None


def _is_sound(manifest: Manifest) -> bool:
    """It may come from anybody's host, and its words become names of files, rows of the index and cells of a table."""
    plan = manifest.plan
    names = (manifest.run_id, manifest.launch_id, plan.name, plan.arm)
    numbers = (manifest.position, plan.seed)
    return (
        all(isinstance(name, str) and _NAME.fullmatch(name) for name in names)
        and all(type(number) is int and abs(number) < 1 << 63 for number in numbers)
        and epoch_of(manifest.created_epoch) > 0
        and isinstance(manifest.submitted_by, dict)
        and all(isinstance(word, str) for word in manifest.submitted_by.values())
    )


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,299}")
_HEAD = ("run_id", "launch_id", "position", "created", "created_epoch", "submitted_by")


def read_manifest(run_dir: Path) -> Manifest | None:
    """The manifest in a run directory of this machine; None where it is gone, damaged or of another version."""
    try:
        return parse_manifest((run_dir / "manifest.json").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def fetch_manifests(place: Place, root: str, ids: Sequence[str] = ()) -> list[str]:
    """The texts of the manifests of these runs, or of all runs below a root."""
    text = supervisor.call(place, "manifests", root, *ids, timeout_s=120.0)
    return [part for part in text.split("\0") if part]
