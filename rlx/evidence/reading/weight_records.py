"""Read what the processes of a run wrote of their weights, each its own file: which tensors, and a digest at each sync.

Lines are numbered as those of the noise records are. Source: rlx/payload/rlx_weights.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlx.evidence.reading.noise_records import WEIGHTS, Document, documents_in, numbered, process_of
from rlx.evidence.reading.run_files import is_count
from rlx.evidence.run_evidence import SERVED, TRAINED, WeightRecord, WeightSync

RULES = "weight records 1"
"""To be changed with whatever makes rlx read the same bytes otherwise."""
_MOST_TENSORS = 64


def read_weights(folder: Path, attempt: int = 1) -> tuple[WeightRecord, ...]:
    """Read the files of this folder of events; nothing where there is none."""
    return tuple(record for path in sorted(folder.glob(f"{WEIGHTS}*.jsonl")) for record in _records(path, attempt))


def _records(path: Path, attempt: int) -> Iterator[WeightRecord]:
    documents, count = numbered(path.name, list(documents_in(path)))
    for why in (_text(document.get("why")) for document in documents if document.get("kind") == "unable"):
        yield WeightRecord("", path.name, attempt, failed=why or "it does not say why")
    for role in (TRAINED, SERVED):
        if own := [document for document in documents if document.get("role") == role]:
            yield _record(role, path.name, attempt, own, count.lost)


def _record(role: str, name: str, attempt: int, documents: Sequence[Document], lost: int) -> WeightRecord:
    told: Document = next((document for document in documents if document.get("kind") == "tensors"), {})
    failed = next((document for document in documents if document.get("kind") == "failed"), None)
    return WeightRecord(
        role,
        name,
        attempt,
        process_of(documents[0]),
        names=_texts(told.get("names")),
        shapes=_shapes(told.get("shapes")),
        whole=_shapes(told.get("whole")),
        dtypes=_texts(told.get("dtypes")),
        trainable=_count(told.get("trainable")),
        parameters=_count(told.get("parameters")),
        lora_rank=_count(told.get("lora_rank")),
        syncs=tuple(_syncs(documents)),
        failed="" if failed is None else _text(failed.get("why")) or "it does not say why",
        lost=lost,
    )


def _syncs(documents: Sequence[Document]) -> Iterator[WeightSync]:
    for document in documents:
        number = document.get("sync")
        if document.get("kind") == "sync" and is_count(number):
            yield WeightSync(
                number,
                _texts(document.get("digests")),
                _count(document.get("step")),
                _texts(document.get("rounded")),
                _count(document.get("moving")) or 0,
            )


def _shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    shapes = value[:_MOST_TENSORS] if isinstance(value, list) else []
    return tuple(tuple(size for size in shape if is_count(size)) for shape in shapes if isinstance(shape, list))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value[:_MOST_TENSORS])) if isinstance(value, list) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if is_count(value) else None
