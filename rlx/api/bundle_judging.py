"""Compute everything that a bundle claims again, from the evidence in it, and find each difference."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx import __version__
from rlx.api.bundling import FORMAT, Asked, computed_from
from rlx.api.claims import Claims, Difference, differences
from rlx.errors import RlxError, UsageError
from rlx.local_files import parse_json, read_bytes, read_text

if TYPE_CHECKING:
    from rlx.runs.bundles.bundled_run import BundledRun

_MOST_DOCUMENT, _MOST_SUMS = 256 << 20, 16 << 20


@dataclass(frozen=True, slots=True)
class JudgedBundle:
    """A bundle held against its own evidence. `sha256`: of the archive; `written_by`: the version of rlx that it names.

    `differences` are in evidence or values; `worded_otherwise` are texts and fields in which two versions of rlx may
    differ, and empty for a bundle of this version. `on_trust`: what nothing in the bundle can show. `computed`: what
    follows from the evidence, as JSON; None where nothing can be computed.
    """

    path: Path
    sha256: str
    written_by: str
    runs: tuple[BundledRun, ...]
    files: int
    differences: tuple[Difference, ...]
    worded_otherwise: tuple[Difference, ...]
    on_trust: tuple[str, ...]
    computed: Claims | None

    @property
    def agrees(self) -> bool:
        """Tell whether all that it claims follows from the evidence in it, word by word."""
        return not (self.differences or self.worded_otherwise)

    @property
    def of_another_version(self) -> bool:
        """Tell whether it was written by another rlx than this one."""
        return self.written_by != __version__


@dataclass(frozen=True, slots=True)
class _Document:
    """What bundle.json says."""

    rlx: str
    asked: Asked
    runs: tuple[BundledRun, ...]
    claims: Claims


def judge_bundle(path: str | Path) -> JudgedBundle:
    """Judge and compare the runs in a bundle again, and hold the outcome against what it claims.

    No host is asked, nothing of the user's own runs is looked at, and nothing is written but a folder for temporary
    files. Raises RlxError for a file that is no bundle, of a later format, or with anything else in it.
    """
    from rlx.runs.bundles.bundle_layout import belongs
    from rlx.runs.bundles.tar_file import unpack_tar
    from rlx.runs.bundles.unpacked_home import file_sha256

    path = Path(path)
    with tempfile.TemporaryDirectory(prefix="rlx-judge-") as scratch:
        folder = Path(scratch).resolve()
        unpack_tar(path, folder, belongs)
        document = _read_document(path, folder)
        changed, files = list(_changed_files(folder, document.runs)), _files(folder)
        computed, failed = _computed(folder, document)
    found = differences(document.claims, computed) if computed is not None else []
    other = document.rlx != __version__
    return JudgedBundle(
        path=path,
        sha256=file_sha256(path),
        written_by=document.rlx,
        runs=document.runs,
        files=len(files),
        differences=(*changed, *failed, *(each for each in found if not (other and each.is_wording))),
        worded_otherwise=tuple(each for each in found if other and each.is_wording),
        on_trust=tuple(_on_trust(document.runs, files)),
        computed=computed,
    )


def _read_document(path: Path, folder: Path) -> _Document:
    """Read bundle.json. Raises RlxError for one that this rlx cannot read."""
    from rlx.runs.bundles.bundle_layout import DOCUMENT

    try:
        document = parse_json(read_bytes(folder / DOCUMENT, _MOST_DOCUMENT))
        version, writer = document["format"], str(document["rlx"])[:40]
        if version != FORMAT:
            raise RlxError(
                f"{path} is a bundle of format {str(version)[:20]}, written by rlx {writer}; this rlx {__version__} "
                f"reads format {FORMAT}",
                f"check it with rlx {writer}",
            )
        runs = tuple(_runs(document["runs"]))
        if len({run.run_id for run in runs}) != len(runs):
            raise ValueError("it lists a run twice")
        return _Document(writer, _asked(document["asked"]), runs, _expect(document["claims"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UsageError) as problem:
        reason = getattr(problem, "strerror", None) or getattr(problem, "message", None) or repr(problem)[:200]
        raise RlxError(f"{path}: its {DOCUMENT} cannot be read: {reason}", "rlx report --bundle writes one") from None


def _expect(claims: Any) -> Claims:
    if not isinstance(claims, dict):
        raise ValueError("it claims nothing")
    return claims


def _asked(asked: Any) -> Asked:
    from rlx.plan import salvage_jsonable

    return salvage_jsonable(Asked, asked, "asked")[0]


def _runs(listed: Any) -> Iterator[BundledRun]:
    """The listed runs. Their ids become names of files, and their numbers rows of a table."""
    from rlx.plan import salvage_jsonable
    from rlx.runs.bundles.bundle_layout import RUN_ID
    from rlx.runs.bundles.bundled_run import BundledRun
    from rlx.runs.looking.state import epoch_of

    for number, one in enumerate(listed):
        run, unread = salvage_jsonable(BundledRun, one, f"runs[{number}]")
        numbers = (run.seed, run.node, run.position)
        if not RUN_ID.fullmatch(run.run_id) or any(type(each) is not int or abs(each) >> 62 for each in numbers):
            raise ValueError(f"{run.run_id[:80]!r} is no run")
        if any(place.rpartition(".")[2] in _NEEDED for place in unread):
            raise ValueError(f"{', '.join(unread)[:200]} cannot be read")
        epoch_of(run.created)
        yield run


_NEEDED = ("run_id", "launch_id", "name", "arm", "seed", "node", "created")


def _files(folder: Path) -> set[str]:
    from rlx.runs.bundles.bundle_layout import belongs

    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return set(filter(belongs, names))


def _changed_files(folder: Path, runs: Sequence[BundledRun]) -> Iterator[Difference]:
    """Files that are not what the list of digests says, and manifests and registrations that are others."""
    from rlx.runs.bundles.bundle_layout import SUMS, run_of
    from rlx.runs.bundles.unpacked_home import file_sha256, manifest_sha256
    from rlx.runs.index.registrations import FOLDER, registered_digest

    listed = _sums(folder)
    for name in sorted(_files(folder) - {SUMS} | listed.keys()):
        found = file_sha256(folder / name) if (folder / name).is_file() else None
        if found != listed.get(name):
            yield Difference(run_of(name), f"sha256 of {name}", listed.get(name), found)
    for run in runs:
        found = manifest_sha256(folder, run.run_id)
        if found != run.manifest:
            yield Difference(run.run_id, "sha256 of its manifest", run.manifest, found)
        yield from _other_run(folder, run)
    for path in sorted((folder / FOLDER).glob("*.json")):
        digest = registered_digest(path)
        if digest != path.stem:
            yield Difference("", f"digest of {FOLDER}/{path.name}", path.stem, digest)


def _other_run(folder: Path, run: BundledRun) -> Iterator[Difference]:
    """The list of runs says of each what its manifest says."""
    from rlx.runs import read_manifest
    from rlx.runs.bundles.bundle_layout import RUNS

    manifest = read_manifest(folder / RUNS / run.run_id)
    if manifest is None:
        return
    plan = manifest.plan
    told = {"run_id": manifest.run_id, "launch_id": manifest.launch_id, "created": manifest.created_epoch}
    told |= {"name": plan.name, "arm": plan.arm, "seed": plan.seed, "node": plan.node}
    for field, value in told.items():
        if getattr(run, field) != value:
            yield Difference(run.run_id, field, getattr(run, field), value)


def _sums(folder: Path) -> Mapping[str, str]:
    """The digests by file, of the files that a bundle may have; none where the list is missing or no text."""
    from rlx.runs.bundles.bundle_layout import SUMS, belongs

    try:
        lines = read_text(folder / SUMS, _MOST_SUMS).splitlines()
    except OSError:
        return {}
    pairs = (line.partition("  ") for line in lines)
    return {name: digest for digest, _, name in pairs if belongs(name) and name != SUMS}


def _computed(folder: Path, document: _Document) -> tuple[Claims | None, list[Difference]]:
    """What follows from the evidence; where it cannot be computed, why, as a difference to all that is claimed."""
    try:
        return computed_from(folder, document.runs, document.asked), []
    except RlxError as problem:
        reason = problem.message.replace(f"{folder}/", "")
        return None, [Difference("", "claims", "verdicts and sentences", f"nothing: {reason}")]


def _on_trust(runs: Sequence[BundledRun], files: set[str]) -> Iterator[str]:
    """What the bundle states and no file in it shows."""
    from rlx.plan.run_dir import ATTEMPTS_DIR, EXIT_FILE
    from rlx.runs.bundles.bundle_layout import RUNS

    for run in (run for run in runs if not run.node):
        own = [name for name in files if name.startswith(f"{RUNS}/{run.run_id}/")]
        ends = [name for name in own if name.startswith(f"{RUNS}/{run.run_id}/{ATTEMPTS_DIR}/")]
        if not any(name.endswith(f"/{EXIT_FILE}") for name in ends):
            yield f"{run.run_id}: that it was {run.state or 'never seen'}; no record of its end is in the bundle"
        elif not run.manifest:
            yield f"{run.run_id}: that there was such a run; its manifest is not in the bundle"
        if run.removed:
            yield f"{run.run_id}: who removed it, when and why"
