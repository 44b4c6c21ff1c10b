"""Two logs that claim to be one run, by name, arm and seed, or by being imported together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlx.evidence import Disagreement, Evidence, conflicts, overlaps, read_evidence
from rlx.runs.adopted.log_source import Source, read_source, source_of
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.run import RunPaths


def conflicts_of(run_dir: Path, evidence: Evidence, parsed: ParsedFiles) -> tuple[Disagreement, ...]:
    """Find where other logs that claim to be this run have other values; empty for a run that rlx started itself."""
    source = source_of(run_dir)
    manifest = read_manifest(run_dir) if source else None
    if source is None or manifest is None:
        return ()
    found = list(_within(run_dir, source, parsed))
    for other, known in _namesakes(run_dir, manifest):
        # Both of them tell it in the same words, the earlier one first.
        records = [(run_dir, evidence), (other, read_evidence(RunPaths(other).attempts, parsed))]
        if (known.created_epoch, known.run_id) < (manifest.created_epoch, manifest.run_id):
            records.reverse()
        labels = _labels(*(folder for folder, _ in records))
        found += conflicts(dict(zip(labels, (own for _, own in records), strict=True)))
    return tuple(found)


def _within(run_dir: Path, source: Source, parsed: ParsedFiles) -> tuple[Disagreement, ...]:
    attempts = RunPaths(run_dir).attempts
    if source.followed or len(attempts) < 2:
        return ()
    names = [Path(path).name for path in source.paths]
    labels = names if len(set(names)) == len(names) else source.paths
    records = (read_evidence([attempt], parsed) for attempt in attempts)
    return overlaps(dict(zip(labels, records, strict=True)))


def _namesakes(run_dir: Path, manifest: Manifest) -> Iterator[tuple[Path, Manifest]]:
    claim = (manifest.plan.name, manifest.plan.arm, manifest.plan.seed)
    for other in run_dir.parent.glob(f"{manifest.plan.run_name}-[0-9]*"):
        known = read_manifest(other) if other != run_dir else None
        if known is not None and (known.plan.name, known.plan.arm, known.plan.seed) == claim:
            yield other, known


def _labels(one: Path, other: Path) -> tuple[str, str]:
    """The shortest names that tell them apart."""
    sources = read_source(one), read_source(other)
    names = [", ".join(Path(path).name for path in source.paths) for source in sources]
    places = [str(source) for source in sources]
    return next((left, right) for left, right in (names, places, (one.name, other.name)) if left != right)
