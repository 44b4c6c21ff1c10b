"""Begin a further attempt of a run in its own directory, in one command on its host.

The host checks, under the lock of its runs, that the run is over and no process of it is alive, that its files are
those that were launched, and that this attempt has not begun before. A second call finds the attempt, and begins no
other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlx.errors import RlxError, UsageError
from rlx.hosts.host_errors import HostError, reading_answer
from rlx.model import to_jsonable
from rlx.model.attempt_lineage import CheckpointFiles, Lineage, SavedCheckpoint
from rlx.model.run_dir import CHECKPOINTS_DIR, LINEAGE_FILE, RESUME_FILE
from rlx.runs import supervisor
from rlx.runs.launching.launch import send_archive
from rlx.runs.launching.shipment import device_request, order_digest, pack_attempt, pick_secrets
from rlx.runs.manifest import Manifest
from rlx.runs.run import RunRef, container_of, is_run_id

_ANEW = "none"
_ASK = "retry it from the machine that launched it"
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIMEOUT_S = 120.0
_LINE = re.compile(r"(text|file|tail) (\S*) (.+)")


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where an attempt starts: at `checkpoint`, or at the beginning. `aside`: folders that it must not find then.

    `marker`: the file in which a back-end looks for its last checkpoint; it is rewritten to name this one.
    """

    checkpoint: SavedCheckpoint | None = None
    aside: tuple[str, ...] = ()
    marker: str = ""


def begin_attempt(
    ref: RunRef, manifest: Manifest, lineage: Lineage, resumption: Resumption, secrets: Mapping[str, str]
) -> bool:
    """Begin the attempt; False if it has begun already. Raises UsageError for a missing secret, RlxError for a refusal.

    Raises HostError if the host does not answer; the same call again finds or begins it.
    """
    plan = manifest.plan
    site = replace(plan.site, place=ref.place, root=ref.root)
    if container_of(site) != ref.container:
        raise RlxError(f"{ref.run_id}: its files name a container that is not known to be its own", _ASK)
    pick_secrets(plan, secrets)
    order = _order(ref, manifest, lineage, resumption)
    resume = f"{CHECKPOINTS_DIR}/{resumption.checkpoint.folder}" if resumption.checkpoint else _ANEW
    files = {
        LINEAGE_FILE: json.dumps(to_jsonable(lineage), indent=1, ensure_ascii=False) + "\n",
        RESUME_FILE: f"{resume}\n",
    }
    archive = pack_attempt(plan, secrets, order, files)
    try:
        done = send_archive(site, "retry", f"{ref.launch_id}-{lineage.attempt}", order_digest(order, site), archive)
    except HostError as error:
        what = "the attempt may have started" if error.arrived else "nothing was started"
        again = "the same rlx retry again begins nothing twice"
        raise HostError(f"{error.message}\n{ref.run_id}: {what}", again if error.arrived else error.hint) from None
    if done.code != 0:
        complaint = done.err.decode(errors="replace").strip() or f"exit {done.code}"
        raise RlxError(f"{ref.run_id}: nothing was started: {complaint}", f"rlx status -v {ref.run_id}")
    return done.out.decode(errors="replace").startswith("started")


def _order(ref: RunRef, manifest: Manifest, lineage: Lineage, resumption: Resumption) -> str:
    """Write the order for the host. Raises UsageError for an id or a name that a shell would misread."""
    plan, chosen = manifest.plan, resumption.checkpoint
    names = [*resumption.aside, *([chosen.folder] if chosen else []), *([resumption.marker] if chosen else [])]
    if not is_run_id(ref) or not all(map(_FOLDER.fullmatch, names)):
        raise UsageError(f"{ref.run_id}: its name or that of a checkpoint was not made by rlx")
    begin = f"{CHECKPOINTS_DIR}/{chosen.folder}" if chosen else _ANEW
    first = f"{ref.run_id} {plan.device_kind} {device_request(plan)} {lineage.attempt} {begin}"
    marks = [f"mark {resumption.marker} {chosen.step}"] if chosen else []
    sums = [
        f"sum {digest}  {path}"
        for path, digest in manifest.digests.items()
        if _DIGEST.fullmatch(digest) and path.isprintable() and "\\" not in path
    ]
    return "\n".join([first, *sums, *(f"aside {name}" for name in resumption.aside), *marks, "end\n"])


def read_checkpoint_files(ref: RunRef) -> CheckpointFiles:
    """List the files of checkpoints. Raises RlxError if the host does not answer, or the run directory is gone."""
    text = supervisor.call(ref.place, "checkpoints", ref.remote_dir, timeout_s=_TIMEOUT_S)
    with reading_answer(ref.host, "rlx retry"):
        return _parse_checkpoint_files(text)


def _parse_checkpoint_files(text: str) -> CheckpointFiles:
    """Parse the list. Raises ValueError for an invalid size. A name with a line end is no file of a checkpoint."""
    lines = [found.groups() for line in text.splitlines() if (found := _LINE.fullmatch(line))]
    return CheckpointFiles(
        sizes={path.removeprefix("./"): int(size) for kind, size, path in lines if kind == "file"},
        tails={path.removeprefix("./"): tail for kind, tail, path in lines if kind == "tail"},
        texts={name: words for kind, name, words in lines if kind == "text"},
    )
