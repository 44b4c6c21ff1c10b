"""Gather the files of runs for a bundle in a folder: their evidence, without secrets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rlx.errors import RlxError
from rlx.hosts.host_errors import HostError
from rlx.local_files import open_regular
from rlx.model import RunState
from rlx.model.run_dir import SCRIPT_DIR, VALIDATION_DIR
from rlx.payload.mask_secrets import LARGEST, mask_file, spans_of, spellings
from rlx.runs.bundles.bundle_file import RUNS, evidence_files, record_files
from rlx.runs.copies.mirror import kept
from rlx.runs.copies.mirror_store import read_cursor
from rlx.runs.copies.pull import fetch
from rlx.runs.importing.log_source import is_adopted
from rlx.runs.index.kept_waivers import FOLDER as WAIVERS
from rlx.runs.index.registrations import FOLDER, same_question
from rlx.runs.index.run_index import Index
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.run import RunPaths, RunRef
from rlx.secret_text import secret_spans

Tell = Callable[[str], None]
_CHUNK = 1 << 20
_UNNAMED = "a password or key"


def gather(
    index: Index, compared: Sequence[RunRef], others: Sequence[RunRef], folder: Path, tell: Tell
) -> Mapping[str, float | None]:
    """Copy the evidence of runs into `folder`, with the experiments that they name, and mask secrets in them.

    Of `others` that belong to no such experiment, only what they were and how they ended is copied. What cannot be
    copied is reported. Returns, for each unfinished run whose whole log could not be fetched, when its host was last
    queried. Raises RlxError if the folder cannot be written.
    """
    silent: dict[str, float | None] = {}
    registered = _registered(index, compared)
    whole = [ref for ref in others if is_adopted(ref) or _registered(index, [ref]) & registered]
    try:
        for ref, copy in ((ref, kept(index, [ref])[ref.run_id]) for ref in (*compared, *others)):
            is_whole, target = ref in (*compared, *whole), folder / RUNS / ref.run_id
            names = evidence_files(copy.run_dir) if is_whole else record_files(copy.run_dir)
            _take(copy.run_dir, names, target, tell)
            if is_whole and not ref.place.is_local:
                _take_outputs(copy.run_dir, target)
                if copy.end is not RunState.FINISHED and not _take_log(ref, copy.run_dir, target):
                    silent[ref.run_id] = copy.as_of
        kept_here = [f"{FOLDER}/{digest}.json" for digest in registered | _of_same_question(index, compared)]
        kept_here += [f"{WAIVERS}/{ref.run_id}.json" for ref in (*compared, *others)]
        _take(index.home, (name for name in kept_here if (index.home / name).is_file()), folder, tell)
        _mask(folder, _secrets(index, (*compared, *others)), tell)
        run_dirs = [copy.run_dir for copy in kept(index, [*compared, *others]).values()]
        _mask_found(folder, run_dirs, tell)
    except (OSError, shutil.Error) as problem:
        raise RlxError(f"{folder}: {getattr(problem, 'strerror', None) or problem}", "is the disk full?") from None
    return silent


def _manifests(index: Index, refs: Iterable[RunRef]) -> Iterator[Manifest]:
    copies = kept(index, refs := list(refs))
    yield from (found for ref in refs if (found := read_manifest(copies[ref.run_id].run_dir)) is not None)


def _registered(index: Index, refs: Iterable[RunRef]) -> set[str]:
    """Return the digests of the experiments that these runs belong to."""
    registrations = (manifest.plan.registration for manifest in _manifests(index, refs))
    return {registration.digest for registration in registrations if registration}


def _of_same_question(index: Index, refs: Iterable[RunRef]) -> set[str]:
    """Return the digests of other experiments with the same question, which a comparison reports."""
    registrations = {manifest.plan.registration for manifest in _manifests(index, refs)} - {None}
    return {one.digest for each in registrations if each for one in same_question(index.home, each)}


def _take(source: Path, names: Iterable[str], target: Path, tell: Tell) -> None:
    """Copy files of a run directory, but no link: it may lead to any file of this user."""
    for name in names:
        if (source / name).resolve() != source.resolve() / name:
            tell(f"{source / name} is a link, and not taken into the bundle")
            continue
        try:
            file = open_regular(source / name)
        except OSError as problem:
            tell(f"{source / name} is not in the bundle: {problem.strerror}")
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with file, (target / name).open("wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK)


def _take_outputs(mirror: Path, target: Path) -> None:
    """Replace the number of answers, all that a mirror has, by the validation outputs that were fetched."""
    for path, file in read_cursor(mirror).files.items():
        attempt, folder, name = path.rpartition(f"/{VALIDATION_DIR}/")
        fetched = mirror / attempt / "outputs" / f"{name.removesuffix('.jsonl')}-{file.inode}-{file.bytes}" / name
        if folder and fetched.is_file() and (target / path).is_file():
            shutil.copyfile(fetched, target / path)


def _take_log(ref: RunRef, mirror: Path, target: Path) -> bool:
    """Replace the copied lines of the latest attempt by its whole log, which shows why the run ended.

    Returns whether its host could send it.
    """
    path = str(RunPaths(mirror).log.relative_to(mirror))
    file = read_cursor(mirror).files.get(path)
    try:
        return file is not None and not file.denied and fetch(ref, path, file.bytes, target / path)
    except HostError:
        return False


def _secrets(index: Index, refs: Sequence[RunRef]) -> Mapping[str, str]:
    """Return the values that this machine has for the names of the runs' secrets; manifests hold only the names."""
    names = {name for manifest in _manifests(index, refs) for name in manifest.plan.secrets}
    return {name: value for name in names if (value := os.environ.get(name))}


def _mask(folder: Path, secrets: Mapping[str, str], tell: Tell) -> None:
    """Mask secrets that were printed, with * for each byte. Raises RlxError for one in a file too large for that.

    A run masks what it writes; a tracked or imported log is not masked.
    """
    for name, value in sorted(secrets.items()):
        _mask_forms(folder, spellings(os.fsencode(value)), f"the value of {name}", tell)


def _mask_found(folder: Path, run_dirs: Iterable[Path], tell: Tell) -> None:
    """Mask secrets that are recognised by name or form, and their values wherever they occur."""
    scripts = (script for run_dir in run_dirs for script in run_dir.glob(f"{SCRIPT_DIR}/*"))
    values = {value for script in scripts for _, value in _found_in(script)}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if found := list(_found_in(path)):
            with path.open("r+b") as file:
                for start, value in found:
                    file.seek(start)
                    file.write(b"*" * len(value))
            tell(f"{path.relative_to(folder)}: {_UNNAMED} was masked")
            values |= {value for _, value in found}
    _mask_forms(folder, {form for value in values for form in spellings(value)}, _UNNAMED, tell)


def _found_in(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the value of each secret that is recognised by its name or form. Lines are read whole."""
    place = 0
    with open_regular(path) as file:
        while lines := file.readlines(_CHUNK):
            text = b"".join(lines).decode("utf-8", "surrogateescape")
            for start, end in secret_spans(text):
                before, value = (part.encode("utf-8", "surrogateescape") for part in (text[:start], text[start:end]))
                yield place + len(before), value
            place += sum(map(len, lines))


def _mask_forms(folder: Path, forms: set[bytes], what: str, tell: Tell) -> None:
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and _holds(path, forms)):
        shown = path.relative_to(folder)
        mask_file(forms, path)
        if _holds(path, forms):
            raise RlxError(
                f"{shown} holds {what}, and is too large to mask, or no text",
                f"remove it from a copy of that file (over {LARGEST >> 20} MiB), and import that",
            )
        tell(f"{shown}: {what} was masked")


def _holds(path: Path, forms: Collection[bytes]) -> bool:
    """Look for any form in a file, in pieces that overlap by the longest."""
    longest = max(map(len, forms), default=0)
    rest = b""
    with path.open("rb") as file:
        while forms and (piece := file.read(_CHUNK)):
            if spans_of(set(forms), rest + piece):
                return True
            rest = (rest + piece)[-longest:]
    return False
