"""Write the evidence of some runs, and what was computed of them, as an archive that others can verify."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx import __version__
from rlx.api.generated_files import check_target, made_by, replaced_file
from rlx.api.judged_comparison import Compared
from rlx.api.runs import unheard
from rlx.errors import RlxError
from rlx.model.verdict_rules import RULES
from rlx.renamed_keys import current_key, current_names

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Uncompared
    from rlx.api.runs import Run, Tell
    from rlx.compare import Comparison
    from rlx.runs import Index, RunRef
    from rlx.runs.bundles.bundled_run import BundledRun
    from rlx.runs.index.hidden_runs import HiddenRun

FORMAT = 1
_MOST_TOLD = 3
_README = """\
The evidence of some runs, and what was computed of it, written by rlx {version}.

  rlx judge FILE.tar.gz        computes every verdict and every sentence again, and names each difference
  sha256sum -c SHA256SUMS      checks the files alone

bundle.json has what was asked and what was computed; below runs/ is each run as its host left it: what was expected
(manifest.json), and for each attempt log, metrics, noise events, validation answers and how it ended.
"""
Claims = Mapping[str, Any]
_VALUES = {"control", "treatment"}


@dataclass(frozen=True, slots=True)
class BundleRequest:
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
    from rlx.api.runs import arm_name

    bundle_asked(Path(path), BundleRequest(tuple(arm_name(arm) for arm in arms), metric, tuple(seeds), systems), tell)
    return Path(path)


def bundle_asked(path: Path, asked: BundleRequest, tell: Tell) -> Compared | Uncompared:
    """Write the archive of what was asked; what it claims. Raises what `rlx.bundle` raises."""
    from rlx.api.reporting import found_runs
    from rlx.api.runs import open_index

    check_target(path)
    index = open_index()
    found = found_runs(index, asked.names, asked.seeds, asked.metric, tell, asked.systems)
    compared = {run.run_id: run.arm for run in found.runs}
    if any(ref.group for ref in index.runs() if ref.run_id in compared):
        # In a bundle a name means one launch, and those of a script are several: it names the runs of each arm.
        arms = (
            tuple(run_id for run_id, own in compared.items() if own == arm) for arm in dict.fromkeys(compared.values())
        )
        asked = replace(asked, names=tuple(map(",".join, arms)), seeds=())
        found = found_runs(index, asked.names, asked.seeds, asked.metric, tell, asked.systems)
    with tempfile.TemporaryDirectory(prefix="rlx-bundle-") as scratch:
        _write(path, Path(scratch), index, asked, found, tell)
    return found


def _write(
    path: Path, folder: Path, index: Index, asked: BundleRequest, found: Compared | Uncompared, tell: Tell
) -> None:
    """Gather the evidence, compute from what was gathered alone, and pack both."""
    from rlx.runs.bundles.bundle_file import belongs, write_tar
    from rlx.runs.bundles.staging import gather

    reported, compared = claims_of(found), {run.run_id for run in found.runs}
    # All nodes of every run that is reported on, by its id or its experiment, the newest launch first.
    named = set(_texts(reported))
    refs = [ref for ref in index.nodes() if named & {ref.head_id, ref.name}]
    own = [ref for ref in refs if ref.head_id in compared]
    silent = gather(index, own, [ref for ref in refs if ref not in own], folder, tell)
    listed = _listed(refs, found, folder, silent, index.hidden_runs())
    claims = computed_from(folder, listed, asked, RULES)
    _tell_changed(reported, claims, tell)
    _write_documents(folder, asked, listed, claims)
    names = [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
    with replaced_file(path) as file:
        write_tar(folder, filter(belongs, names), made_by(), file)


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
    removed: Mapping[str, HiddenRun],
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


def computed_from(folder: Path, listed: Sequence[BundledRun], asked: BundleRequest, rules: int) -> Claims:
    """Compute everything from the runs in a folder, as for a report, by the rules of that version.

    Raises RlxError where that cannot be done.
    """
    from rlx.api.reporting import found_runs
    from rlx.runs.bundles.bundled_run import open_bundle

    index = open_bundle(folder, listed, rules)
    return claims_of(found_runs(index, asked.names, asked.seeds, asked.metric, unheard, asked.systems))


def _tell_changed(reported: Claims, bundled: Claims, tell: Tell) -> None:
    """Tell what differs from the report: the bundle lacks what a run wrote meanwhile, what is masked, and host-only
    files.
    """
    changed = differences(reported, bundled)
    for each in changed[:_MOST_TOLD]:
        tell(f"the bundle differs: {each.run_id} {each.field}: {each.computed} instead of {each.claimed}")
    if len(changed) > _MOST_TOLD:
        tell(f"and {len(changed) - _MOST_TOLD} more")


def _write_documents(folder: Path, asked: BundleRequest, listed: Sequence[BundledRun], claims: Claims) -> None:
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


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that was claimed and is not what follows. `run_id` is "" for what concerns several runs.

    `field`: the keys that lead to it, below its run; or the file that it is about. `one_sided`: one of the two has no
    such field at all.
    """

    run_id: str
    field: str
    claimed: Any
    computed: Any
    one_sided: bool = False

    @property
    def is_wording(self) -> bool:
        """Tell whether two versions of rlx may say this of the same evidence: a text, or a field that one has not."""
        texts = all(isinstance(value, str) and " " in value for value in (self.claimed, self.computed))
        return texts or self.one_sided


def claims_of(found: Compared | Uncompared) -> Claims:
    """Every verdict, value and sentence, with the excluded runs and the related experiments."""
    from rlx.model import to_jsonable

    what = _compared(found.comparison) if isinstance(found, Compared) else {"problem": found.problem}
    runs = [
        {"run_id": run.run_id, "state": run.state, "verdict": run.verdict, "sentence": run.verdict.sentence}
        for run in found.runs
    ]
    document = {"runs": runs, "left_out": found.left_out, "others": found.others, **what}
    claims: Claims = json.loads(json.dumps(to_jsonable(document)))
    return claims


def _compared(comparison: Comparison) -> Claims:
    """Return the comparison, and in words what is not in it."""
    from rlx.compare.excluded_runs import excluded_groups, excluded_sentence, related_experiments_lines
    from rlx.compare.sentences import comparison_document

    left_out = [excluded_sentence(comparison.left_out), *(f"  {line}" for line in excluded_groups(comparison.left_out))]
    others = related_experiments_lines(comparison.treatment_kind, comparison.others)
    beside = [line for line in (*left_out, *others) if line]
    return {"beside": beside, "comparison": comparison_document(comparison)}


def named_as_now(claimed: Any) -> Any:
    """Return what an earlier version claimed, with the current names of recipe keys: in differences and traces."""
    if isinstance(claimed, list):
        return [named_as_now(item) for item in claimed]
    if not isinstance(claimed, dict):
        return claimed
    named = {name: named_as_now(value) for name, value in claimed.items()}
    if isinstance(key := claimed.get("key"), str):
        values = {name: _value_as_now(key.split("."), claimed[name]) for name in _VALUES & claimed.keys()}
        named |= {"key": current_key(key), **values}
    return named


def _value_as_now(keys: Sequence[str], value: Any) -> Any:
    """Return the value at a recipe key with current names: a whole section has keys of its own."""
    if not isinstance(value, dict):
        return value
    for key in reversed(keys):
        value = {key: value}
    named: Any = current_names(value)
    for key in current_key(".".join(keys)).split("."):
        named = named.get(key) if isinstance(named, dict) else None
    return named


def differences(claimed: Any, computed: Any) -> list[Difference]:
    """Every value in which two documents differ, each once: arms of one run repeat what they say of it."""
    return list({(each.run_id, each.field): each for each in _differences(claimed, computed, "", ())}.values())


def _differences(claimed: Any, computed: Any, run_id: str, keys: tuple[str, ...]) -> Iterator[Difference]:
    if isinstance(claimed, dict) and isinstance(computed, dict):
        if (own := claimed.get("run_id", run_id)) != run_id:
            run_id, keys = str(own), ()
        pairs = [(key, claimed, computed) for key in dict.fromkeys((*claimed, *computed))]
        yield from _below(pairs, run_id, lambda key: (*keys, key))
    elif isinstance(claimed, list) and isinstance(computed, list):
        ours, theirs = dict(enumerate(claimed)), dict(enumerate(computed))
        pairs = [(place, ours, theirs) for place in range(max(len(claimed), len(computed)))]
        yield from _below(pairs, run_id, lambda place: (*keys[:-1], f"{keys[-1] if keys else ''}[{place}]"))
    elif not _agree(claimed, computed):
        yield Difference(run_id, ".".join(keys), claimed, computed)


def _below(
    pairs: Sequence[tuple[Any, dict[Any, Any], dict[Any, Any]]], run_id: str, keys: Callable[[Any], tuple[str, ...]]
) -> Iterator[Difference]:
    """Compare what two documents hold under each key. What only one of them has is not looked into."""
    for key, claimed, computed in pairs:
        if key in claimed and key in computed:
            yield from _differences(claimed[key], computed[key], run_id, keys(key))
        else:
            yield Difference(run_id, ".".join(keys(key)), claimed.get(key), computed.get(key), one_sided=True)


def _agree(claimed: Any, computed: Any) -> bool:
    """Machines may differ in the last digits of a float, and in nothing else."""
    if isinstance(claimed, float) and isinstance(computed, float):
        return math.isclose(claimed, computed, rel_tol=1e-9, abs_tol=1e-12)
    return type(claimed) is type(computed) and bool(claimed == computed)
