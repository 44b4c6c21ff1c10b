"""manifest.json: what was launched and by whom, with the digest of every file. Written once, before the run starts."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx import __version__
from rlx.errors import UsageError
from rlx.hosts import transport_for
from rlx.hosts.script_parts import run_part
from rlx.local_files import parse_json
from rlx.model import LaunchPlan, Place, salvage_jsonable, to_jsonable
from rlx.model.launch_plan import with_current_names
from rlx.model.run_dir import MANIFEST_FILE
from rlx.runs import supervisor
from rlx.runs.run import RunRef, utc_text
from rlx.runs.status.host_report import epoch_of

if TYPE_CHECKING:
    from rlx.runs.index.tables import Move

SCHEMA_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,299}")
_SPARABLE = ("position", "created", "submitted_by")
_HEAD = {"schema_version", "run_id", "launch_id", "created_epoch", "plan", *_SPARABLE}
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was launched. `created` is an ISO time in UTC, `created_epoch` the same as an epoch.

    The files of `plan` have no content. `position` counts the runs of a launch from 0, in the order in which they were
    sent. `unread` are the places in the document that this rlx cannot read, because another version wrote it; they
    count as not expected. `moved`: the hosts that the run was withdrawn from, before it had started, in that order.
    """

    run_id: str
    launch_id: str
    position: int
    created: str
    created_epoch: float
    submitted_by: Mapping[str, str]
    digests: Mapping[str, str]
    plan: LaunchPlan
    unread: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    @property
    def lacks(self) -> str:
        """Return why no verdict can be based on it; empty if all of it was read."""
        if not self.unread:
            return ""
        first = ", ".join(place[:80] for place in self.unread[:_MOST_NAMED])
        more = f" and {len(self.unread) - _MOST_NAMED} more" if len(self.unread) > _MOST_NAMED else ""
        writer = self.submitted_by.get("rlx", "of an unknown version")[:80]
        return f"its manifest was written by rlx {writer}, and this rlx {__version__} cannot read {first}{more} in it"


def render_manifest(ref: RunRef, position: int, plan: LaunchPlan, moved: Sequence[Move] = ()) -> str:
    # Workers have their own manifests, on their hosts.
    document = to_jsonable(replace(plan, workers=()))
    # It covers the plan with its workers and the content of its files, which are not included.
    del document["checked"]
    document["files"] = []
    for file in plan.files:
        digest = hashlib.sha256(file.content.encode(errors="surrogateescape")).hexdigest()
        document["files"].append({"path": file.path, "mode": file.mode, "sha256": digest})
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "run_id": ref.run_id,
        "launch_id": ref.launch_id,
        "position": position,
        "created": utc_text(ref.created),
        "created_epoch": ref.created,
        "submitted_by": {**submitter(), "rlx": __version__},
        "plan": document,
    }
    if moved:
        manifest["moved"] = [{"from": one.source, "to": one.target, "time": utc_text(one.begun)} for one in moved]
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def manifest_digest(text: str) -> str:
    """Return the SHA-256 of a manifest as any reader decodes it: bytes that are no text count alike."""
    readable = text.encode(errors="surrogateescape").decode(errors="replace")
    return hashlib.sha256(readable.encode()).hexdigest()


def submitter() -> dict[str, str]:
    """Name the user and the machine that launch."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a uid that no passwd file names.
        user = "unknown"
    return {"user": user, "machine": platform.node()}


def parse_manifest(text: str) -> Manifest | None:
    """Read as much of it as possible; None if it does not even name its run."""
    try:
        document = parse_json(text)
        digests, files = _split_files(document["plan"].get("files"))
        plan, unread = salvage_jsonable(LaunchPlan, {**document["plan"], "files": files}, "plan")
        if not plan.expectations.metric:
            plan = replace(plan, expectations=replace(plan.expectations, metric="auto"))
        plan = with_current_names(plan)
        manifest = Manifest(
            run_id=document["run_id"],
            launch_id=document["launch_id"],
            position=document.get("position", 0),
            created=document.get("created", ""),
            created_epoch=document["created_epoch"],
            submitted_by=_words(document.get("submitted_by", {})),
            digests=digests,
            plan=plan,
            unread=(*_unread_of_head(document), *unread),
            moved=tuple(_sources(document.get("moved", []))),
        )
        return manifest if _is_sound(manifest) and "plan.seed" not in unread else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError):
        return None


def _split_files(files: Any) -> tuple[dict[str, str], Any]:
    """Return digests by path, and the files as the plan has them; anything else unchanged, for `salvage` to report."""
    if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
        return {}, files
    digests = {
        path: digest
        for file in files
        if isinstance(path := file.get("path"), str) and isinstance(digest := file.get("sha256"), str)
    }
    without = [{name: value for name, value in file.items() if name != "sha256"} for file in files]
    return digests, [{**file, "content": ""} for file in without]


def _sources(moved: Any) -> Iterator[str]:
    """Yield the hosts that it was withdrawn from, as far as they can be read."""
    for one in moved if isinstance(moved, list) else ():
        source = one.get("from") if isinstance(one, dict) else None
        if isinstance(source, str):
            yield source


def _words(submitted_by: Any) -> Any:
    """Keep the values of the submitter that are text."""
    if not isinstance(submitted_by, dict):
        return submitted_by
    return {name: word for name, word in submitted_by.items() if isinstance(word, str)}


def _unread_of_head(document: Mapping[str, Any]) -> Iterator[str]:
    yield from sorted(document.keys() - _HEAD - {"moved"})
    yield from (name for name in _SPARABLE if name not in document)
    if document.get("schema_version") != SCHEMA_VERSION:
        yield "schema_version"


def _is_sound(manifest: Manifest) -> bool:
    """Check its values: they may come from any host, and become file names and table cells."""
    plan = manifest.plan
    names = (manifest.run_id, manifest.launch_id, plan.name, plan.arm)
    numbers = (manifest.position, plan.seed, plan.node)
    return (
        all(isinstance(name, str) and _NAME.fullmatch(name) for name in names)
        and all(type(number) is int and abs(number) < 1 << 63 for number in numbers)
        and epoch_of(manifest.created_epoch) > 0
        and isinstance(manifest.created, str)
        and isinstance(manifest.submitted_by, dict)
    )


def read_manifest(run_dir: Path) -> Manifest | None:
    """Read the manifest in a run directory of this machine; None if it is missing, damaged or of another version."""
    return parse_manifest(manifest_text(run_dir))


def manifest_text(run_dir: Path) -> str:
    """Read the text of that file; empty if it cannot be read."""
    try:
        return (run_dir / MANIFEST_FILE).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def fetch_manifests(place: Place, root: str, known: Iterable[str]) -> tuple[list[str], list[str]]:
    """Read the manifests and hidden runs below a root: of files with a known digest only that, else the text.

    `known`: sha256 of texts that this place has shown before.
    """
    digests = "\n".join(known)
    part = supervisor.part("manifests", root)
    part = replace(part, script=f"KNOWN='{digests}'\n".encode() + part.script)
    same, *texts = supervisor.answer(place, "manifests", run_part(transport_for(place), part, 120.0)).split("\0")
    return same.splitlines(), [text for text in texts if text]
