"""Compute everything that a bundle claims again, from the evidence in it, and find each difference."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx import __version__
from rlx.api.bundles import FORMAT, BundleRequest, Claims, Difference, computed_from, differences, named_as_now
from rlx.errors import RlxError, UsageError
from rlx.local_files import parse_json, read_bytes, read_text
from rlx.model.verdict_rules import FIRST_RULES, RULES, is_changed, is_made

if TYPE_CHECKING:
    from rlx.runs.bundles.bundled_run import BundledRun

_MOST_DOCUMENT, _MOST_SUMS = 256 << 20, 16 << 20
_NEEDED = ("run_id", "launch_id", "name", "arm", "seed", "node", "created")


@dataclass(frozen=True, slots=True)
class JudgedBundle:
    """A bundle checked against its own evidence. `sha256`: of the archive; `written_by`: the version of rlx that it
    names.

    `rules`: the version of the rules that it was judged by, and is again. `differences` are in evidence or values;
    `worded_otherwise` are texts and fields in which two versions of rlx may differ, and empty for a bundle of this
    version; `ruled_otherwise` follow from checks that answer otherwise since those rules. `objections`: what the rules
    of now add to its verdicts. `on_trust`: what nothing in the bundle can show. `computed`: what follows from the
    evidence by the rules of the bundle, as JSON; None where nothing can be computed.
    """

    path: Path
    sha256: str
    written_by: str
    rules: int
    runs: tuple[BundledRun, ...]
    files: int
    differences: tuple[Difference, ...]
    worded_otherwise: tuple[Difference, ...]
    ruled_otherwise: tuple[Difference, ...]
    objections: tuple[Objection, ...]
    on_trust: tuple[str, ...]
    computed: Claims | None

    @property
    def agrees(self) -> bool:
        """Tell whether all that it claims follows from the evidence in it, word by word, by its own rules."""
        return not (self.differences or self.worded_otherwise or self.ruled_otherwise)

    @property
    def of_another_version(self) -> bool:
        """Tell whether it was written by another rlx than this one, or by one with other rules."""
        return self.written_by != __version__ or self.rules != RULES


@dataclass(frozen=True, slots=True)
class Objection:
    """A finding that newer rules add to a bundle. `run_id` is "" for a finding about the comparison.

    `verdict`: the word of the run's verdict with it; "" for the comparison.
    """

    run_id: str
    id: str
    message: str
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class _Document:
    """What bundle.json says."""

    rlx: str
    rules: int
    asked: BundleRequest
    runs: tuple[BundledRun, ...]
    claims: Claims


def judge_bundle(path: str | Path) -> JudgedBundle:
    """Judge and compare the runs in a bundle again by its own rules, and check the claims against the result.

    What the current rules add is reported beside it. No host is queried, the user's own runs are not read, and
    nothing is written but a folder for temporary files. Raises RlxError for a file that is no bundle, of a later format
    or later rules, or with anything else in it.
    """
    from rlx.runs.bundles.bundle_file import belongs, unpack_tar
    from rlx.runs.bundles.bundled_run import file_sha256

    path = Path(path)
    with tempfile.TemporaryDirectory(prefix="rlx-judge-") as scratch:
        folder = Path(scratch).resolve() / "then"
        unpack_tar(path, folder, belongs)
        document = _read_document(path, folder)
        changed, files = list(_changed_files(folder, document.runs)), _files(folder)
        computed, failed = _computed(folder, document, document.rules)
        objections: tuple[Objection, ...] = ()
        if document.rules < RULES and computed is not None:
            unpack_tar(path, folder.with_name("now"), belongs)
            today, _ = _computed(folder.with_name("now"), document, RULES)
            objections = tuple(_objections(today or {}, document.rules))
    found = _sorted_differences(document, computed)
    return JudgedBundle(
        path=path,
        sha256=file_sha256(path),
        written_by=document.rlx,
        rules=document.rules,
        runs=document.runs,
        files=len(files),
        differences=(*changed, *failed, *found.values),
        worded_otherwise=found.words,
        ruled_otherwise=found.rules,
        objections=objections,
        on_trust=tuple(_on_trust(document.runs, files)),
        computed=computed,
    )


@dataclass(frozen=True, slots=True)
class _Differences:
    """`values`: differences that no change of version explains. `words`: other wording. `rules`: changed checks."""

    values: tuple[Difference, ...] = ()
    words: tuple[Difference, ...] = ()
    rules: tuple[Difference, ...] = ()


def _sorted_differences(document: _Document, computed: Claims | None) -> _Differences:
    if computed is None:
        return _Differences()
    found = differences(document.claims, computed)
    if document.rlx == __version__ and document.rules == RULES:
        return _Differences(tuple(found))
    # What this rlx says and the other did not contradicts no claim.
    found = [each for each in found if not (each.one_sided and each.claimed is None)]
    changed = _changed_runs(document, computed)
    kinds: dict[str, list[Difference]] = {"values": [], "words": [], "rules": []}
    for each in found:
        is_ruled = changed and each.run_id in {"", *changed}
        kinds["words" if each.is_wording else "rules" if is_ruled else "values"].append(each)
    return _Differences(**{kind: tuple(of_kind) for kind, of_kind in kinds.items()})


def _changed_runs(document: _Document, computed: Claims) -> set[str]:
    """Find the runs whose verdicts differ only in findings whose checks changed after the rules of the bundle."""
    claimed, now = _finding_ids(document.claims), _finding_ids(computed)
    unlike = {run_id: claimed[run_id] ^ now[run_id] for run_id in claimed.keys() & now.keys()}
    return {run_id for run_id, ids in unlike.items() if ids and all(is_changed(id, document.rules) for id in ids)}


def _finding_ids(claims: Claims) -> dict[str, set[str]]:
    """Map each run to the ids of its findings."""
    return {str(run_id): {str(found.get("id")) for found in findings} for run_id, _, findings in _verdicts(claims)}


def _verdicts(claims: Claims) -> Iterator[tuple[Any, Any, list[dict[str, Any]]]]:
    """List id, status and findings of each run. A bundle may hold anything in their place, which is left out."""
    runs = claims.get("runs")
    for run in runs if isinstance(runs, list) else ():
        verdict = run.get("verdict") if isinstance(run, dict) else None
        if isinstance(verdict, dict) and isinstance(findings := verdict.get("findings"), list):
            yield run.get("run_id"), verdict.get("status"), [each for each in findings if isinstance(each, dict)]


def _objections(today: Claims, rules: int) -> Iterator[Objection]:
    """List the findings that the current rules make, and those of that version did not."""
    for run_id, status, findings in _verdicts(today):
        yield from (
            Objection(run_id, found["id"], found["message"], status)
            for found in findings
            if not is_made(found["id"], rules) or is_changed(found["id"], rules)
        )
    for contrast in today.get("comparison", {}).get("contrasts", ()):
        yield from (
            Objection("", found["id"], found["message"])
            for found in contrast["findings"]
            if not is_made(found["id"], rules) or is_changed(found["id"], rules)
        )


def _read_document(path: Path, folder: Path) -> _Document:
    """Read bundle.json. Raises RlxError for one that this rlx cannot read."""
    from rlx.runs.bundles.bundle_file import DOCUMENT

    try:
        document = parse_json(read_bytes(folder / DOCUMENT, _MOST_DOCUMENT))
        version, writer = document["format"], str(document["rlx"])[:40]
        if version != FORMAT:
            raise RlxError(
                f"{path} is a bundle of format {str(version)[:20]}, written by rlx {writer}; this rlx {__version__} "
                f"reads format {FORMAT}",
                f"check it with rlx {writer}",
            )
        rules = document.get("rules", FIRST_RULES)
        if type(rules) is not int or not FIRST_RULES <= rules <= RULES:
            raise RlxError(
                f"{path} was judged by rules {str(rules)[:20]} of rlx {writer}; this {__version__} has rules {RULES}",
                f"check it with rlx {writer}",
            )
        runs = tuple(_runs(document["runs"]))
        if len({run.run_id for run in runs}) != len(runs):
            raise ValueError("it lists a run twice")
        claims = named_as_now(_expect(document["claims"]))
        return _Document(writer, rules, _asked(document["asked"]), runs, claims)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UsageError) as problem:
        reason = getattr(problem, "strerror", None) or getattr(problem, "message", None) or repr(problem)[:200]
        raise RlxError(f"{path}: its {DOCUMENT} cannot be read: {reason}", "rlx report --bundle writes one") from None


def _expect(claims: Any) -> Claims:
    if not isinstance(claims, dict):
        raise ValueError("it claims nothing")
    return claims


def _asked(asked: Any) -> BundleRequest:
    from rlx.model import salvage_jsonable

    return salvage_jsonable(BundleRequest, asked, "asked")[0]


def _runs(listed: Any) -> Iterator[BundledRun]:
    """Yield the listed runs. Their ids become names of files, and their numbers rows of a table."""
    from rlx.model import salvage_jsonable
    from rlx.runs.bundles.bundle_file import RUN_ID
    from rlx.runs.bundles.bundled_run import BundledRun
    from rlx.runs.status.host_report import epoch_of

    for number, one in enumerate(listed):
        run, unread = salvage_jsonable(BundledRun, one, f"runs[{number}]")
        numbers = (run.seed, run.node, run.position)
        if not RUN_ID.fullmatch(run.run_id) or any(type(each) is not int or abs(each) >> 62 for each in numbers):
            raise ValueError(f"{run.run_id[:80]!r} is no run")
        if any(place.rpartition(".")[2] in _NEEDED for place in unread):
            raise ValueError(f"{', '.join(unread)[:200]} cannot be read")
        epoch_of(run.created)
        yield run


def _files(folder: Path) -> set[str]:
    from rlx.runs.bundles.bundle_file import belongs

    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return set(filter(belongs, names))


def _changed_files(folder: Path, runs: Sequence[BundledRun]) -> Iterator[Difference]:
    """Yield the files, manifests and registrations whose digest is not the listed one."""
    from rlx.runs.bundles.bundle_file import SUMS, run_of
    from rlx.runs.bundles.bundled_run import file_sha256, manifest_sha256
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
    """Yield where the list of runs differs from their manifests."""
    from rlx.runs import read_manifest
    from rlx.runs.bundles.bundle_file import RUNS

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
    """Return the digests by file, of the files that a bundle may have; none where the list is missing or no text."""
    from rlx.runs.bundles.bundle_file import SUMS, belongs

    try:
        lines = read_text(folder / SUMS, _MOST_SUMS).splitlines()
    except OSError:
        return {}
    pairs = (line.partition("  ") for line in lines)
    return {name: digest for digest, _, name in pairs if belongs(name) and name != SUMS}


def _computed(folder: Path, document: _Document, rules: int) -> tuple[Claims | None, list[Difference]]:
    """Compute the claims from the evidence; where that fails, return the reason as a difference to all claims."""
    try:
        return computed_from(folder, document.runs, document.asked, rules), []
    except RlxError as problem:
        reason = problem.message.replace(f"{folder}/", "")
        return None, [Difference("", "claims", "verdicts and sentences", f"nothing: {reason}")]


def _on_trust(runs: Sequence[BundledRun], files: set[str]) -> Iterator[str]:
    """Return what the bundle states and no file in it shows."""
    from rlx.model.run_dir import ATTEMPTS_DIR, EXIT_FILE
    from rlx.runs.bundles.bundle_file import RUNS
    from rlx.runs.index.kept_waivers import FOLDER

    for run in (run for run in runs if not run.node):
        own = [name for name in files if name.startswith(f"{RUNS}/{run.run_id}/")]
        ends = [name for name in own if name.startswith(f"{RUNS}/{run.run_id}/{ATTEMPTS_DIR}/")]
        if not any(name.endswith(f"/{EXIT_FILE}") for name in ends):
            yield f"{run.run_id}: that it was {run.state or 'never seen'}; no record of its end is in the bundle"
        elif not run.manifest:
            yield f"{run.run_id}: that there was such a run; its manifest is not in the bundle"
        if f"{FOLDER}/{run.run_id}.json" in files:
            yield f"{run.run_id}: who waived findings of it, when and why"
        if run.removed:
            yield f"{run.run_id}: who removed it, when and why"
