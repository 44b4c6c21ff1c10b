"""Read what the other nodes of a run recorded: each node writes down the noise of its own rollouts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rlx.evidence.cache.file_digest import digest_of
from rlx.evidence.reading.noise_records import read_records
from rlx.evidence.reading.usage_file import MemoryKills, read_kills
from rlx.evidence.reading.weight_records import read_weights
from rlx.evidence.run_evidence import Evidence, WeightRecord
from rlx.model.run_dir import EVENTS_DIR


def with_nodes(evidence: Evidence, attempt_dirs: Sequence[Path]) -> Evidence:
    """The evidence of the head, with the noise events in these attempts of the others. A file on disk is read anew."""
    if not attempt_dirs:
        return evidence
    found = [read_records(folder / EVENTS_DIR, number) for number, folder in enumerate(attempt_dirs, start=1)]
    others = digest_of(attempt_dirs)
    digest = hashlib.sha256(f"{evidence.digest} {others}".encode()).hexdigest() if evidence.digest and others else ""
    return replace(
        evidence,
        noise=(*evidence.noise, *(event for each in found for event in each.events)),
        noise_settings=(*evidence.noise_settings, *(told for each in found for told in each.settings)),
        probes=(*evidence.probes, *(pair for each in found for pair in each.probes)),
        records=(*evidence.records, *(count for each in found for count in each.counts)),
        weights=(*evidence.weights, *_weights(attempt_dirs)),
        memory_kills=(*evidence.memory_kills, *_kills(attempt_dirs)),
        digest=digest,
    )


def _kills(attempt_dirs: Sequence[Path]) -> Iterator[MemoryKills]:
    found = (read_kills(folder, number) for number, folder in enumerate(attempt_dirs, start=1))
    return (kills for kills in found if kills)


def _weights(attempt_dirs: Sequence[Path]) -> Iterator[WeightRecord]:
    for number, folder in enumerate(attempt_dirs, start=1):
        yield from read_weights(folder / EVENTS_DIR, number)
