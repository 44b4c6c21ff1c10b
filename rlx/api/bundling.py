"""Write the evidence of some runs, and what was computed of them, as an archive that somebody else can check."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx import __version__
from rlx.api.claims import Claims, claims_of, differences
from rlx.api.derived_files import check_target, made_by, replaced_file
from rlx.api.telling import unheard
from rlx.errors import RlxError
from rlx.model.verdict_rules import RULES

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared, Uncompared
    from rlx.api.selection import Run
    from rlx.api.telling import Tell
    from rlx.runs import Index, RunRef
    from rlx.runs.bundles.bundled_run import BundledRun
    from rlx.runs.index.tombstones import Tombstone

FORMAT = 1
_MOST_TOLD = 3
_README = """\
The evidence of some runs, and what was computed of it, written by rlx {version}.

  rlx judge FILE.tar.gz        computes every verdict and every sentence again, and names each difference
  sha256sum -c SHA256SUMS      checks the files alone

bundle.json has what was asked and what was computed; below runs/ is each run as its host left it: what was promised
(manifest.json), and for each attempt log, metrics, noise events, validation answers and how it ended.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed: arms or runs, the options that choose among their seeds and metrics, and `--systems`."""

    names: tuple[str, ...]
    metric: str | None
    seeds: tuple[int, ...]
    systems: bool = False


def bundle(
    path: str | Path,
    *arms: Run | Sequence[Run],
    metric: str | None = None,
    seeds: Collection[int] = (),
    systems: bool = False,
    tell: Tell = unheard,
) -> Path:
    """Write an archive (.tar.gz) with which `judge_bundle` computes again what `report` of the same arms says.

    Manifests, logs, metrics, events, kept outputs, registrations and what was left out; no weights, no programs, no
    values of secrets. The same evidence gives the same bytes. Raises RlxError where the file is not rlx's own or cannot
    be written, NoSuchRun for unknown names.
    """
    from rlx.api.selection import arm_name

    bundle_asked(Path(path), Asked(tuple(arm_name(arm) for arm in arms), metric, tuple(seeds), systems), tell)
    return Path(path)


def bundle_asked(path: Path, asked: Asked, tell: Tell) -> Compared | Uncompared:
    """Write the archive of what was asked; what it claims. Raises what `rlx.bundle` raises."""
    from rlx.api.reporting import found_runs
    from rlx.api.selection import open_index

    check_target(path)
    index = open_index()
    found = found_runs(index, asked.names, asked.seeds, asked.metric, tell, asked.systems)
    with tempfile.TemporaryDirectory(prefix="rlx-bundle-") as scratch:
        _write(path, Path(scratch), index, asked, found, tell)
    return found


def _write(path: Path, folder: Path, index: Index, asked: Asked, found: Compared | Uncompared, tell: Tell) -> None:
    """Gather the evidence, compute from what was gathered alone, and pack both."""
    from rlx.runs.bundles.bundle_file import belongs, write_tar
    from rlx.runs.bundles.staging import gather

    reported, compared = claims_of(found), {run.run_id for run in found.runs}
    refs = _named_runs(index, reported)
    own = [ref for ref in refs if ref.head_id in compared]
    silent = gather(index, own, [ref for ref in refs if ref not in own], folder, tell)
    listed = _listed(refs, found, folder, silent, index.tombstones())
    claims = computed_from(folder, listed, asked, RULES)
    _tell_changed(reported, claims, tell)
    _write_documents(folder, asked, listed, claims)
    names = [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
    with replaced_file(path) as file:
        write_tar(folder, filter(belongs, names), made_by(), file)


def _named_runs(index: Index, reported: Claims) -> list[RunRef]:
    """All nodes of every run that is reported on, by its id or its experiment, the newest launch first."""
    named = set(_texts(reported))
    return [ref for ref in index.nodes() if named & {ref.head_id, ref.name}]


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, (list, dict)):
        for part in document.values() if isinstance(document, dict) else document:
            yield from _texts(part)


def _listed(
    refs: Sequence[RunRef],
    found: Compared | Uncompared,
    folder: Path,
    silent: Mapping[str, float | None],
    removed: Mapping[str, Tombstone],
) -> list[BundledRun]:
    from rlx.runs.bundles.bundled_run import BundledRun, manifest_sha256

    states = {run.run_id: run.state for run in found.left_out}
    states |= {run.run_id: run.state.value for run in found.runs}
    missing = {run.run_id: run.evidence.missing for run in found.runs}
    places: dict[str, int] = {}
    listed = []
    for ref in refs:
        position = places[ref.launch_id] = places.get(ref.launch_id, -1) + 1
        names = (ref.run_id, ref.launch_id, ref.name, ref.arm, ref.seed, ref.node, position, ref.created)
        state, lacks = states.get(ref.head_id, ""), missing.get(ref.run_id, "")
        manifest = manifest_sha256(folder, ref.run_id)
        said = silent.get(ref.run_id), removed.get(ref.run_id)
        listed.append(BundledRun(*names, state, lacks, manifest, *said))
    return listed


def computed_from(folder: Path, listed: Sequence[BundledRun], asked: Asked, rules: int) -> Claims:
    """Compute everything from the runs in a folder, as for a report, by the rules of that version.

    Raises RlxError where that cannot be done.
    """
    from rlx.api.reporting import found_runs
    from rlx.runs.bundles.bundled_run import open_bundle

    index = open_bundle(folder, listed, rules)
    return claims_of(found_runs(index, asked.names, asked.seeds, asked.metric, unheard, asked.systems))


def _tell_changed(reported: Claims, bundled: Claims, tell: Tell) -> None:
    """What a run wrote in between, or was masked, or is on a host alone, the bundle cannot show as the report does."""
    changed = differences(reported, bundled)
    for each in changed[:_MOST_TOLD]:
        tell(f"the bundle has it otherwise: {each.run_id} {each.field}: {each.computed} instead of {each.claimed}")
    if len(changed) > _MOST_TOLD:
        tell(f"and {len(changed) - _MOST_TOLD} more")


def _write_documents(folder: Path, asked: Asked, listed: Sequence[BundledRun], claims: Claims) -> None:
    from rlx.model import to_jsonable
    from rlx.runs.bundles.bundle_file import DOCUMENT, README, SUMS, belongs
    from rlx.runs.bundles.bundled_run import file_sha256

    document = {"format": FORMAT, "rlx": __version__, "rules": RULES, "asked": asked, "runs": listed, "claims": claims}
    try:
        (folder / README).write_text(_README.format(version=__version__), encoding="utf-8")
        text = json.dumps(to_jsonable(document), indent=1, ensure_ascii=False)
        (folder / DOCUMENT).write_text(text + "\n", encoding="utf-8")
        names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
        sums = [f"{file_sha256(folder / name)}  {name}\n" for name in filter(belongs, names)]
        (folder / SUMS).write_text("".join(sums), encoding="utf-8")
    except OSError as error:
        raise RlxError(f"{folder}: {error.strerror}", "is the disk full? TMPDIR names another") from None
