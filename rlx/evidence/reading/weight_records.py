"""Read what the processes of a run wrote of their weights, each its own file: which tensors, and a digest at each sync.

Lines are numbered as those of the noise records are. Source: rlx/payload/rlx_weights.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from rlx.evidence.reading.noise_records import WEIGHTS, Document, documents_in, numbered, process_of
from rlx.evidence.reading.run_files import is_count
from rlx.evidence.run_evidence import SERVED, TRAINED, WeightRecord, WeightSync

RULES = "weight records 3"
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
    names = _texts(told.get("names"))
    return WeightRecord(
        role,
        name,
        attempt,
        process_of(documents[0]),
        names=names,
        shapes=_shapes(told.get("shapes"), len(names)),
        whole=_shapes(told.get("whole"), len(names)),
        dtypes=_each(_texts(told.get("dtypes")), len(names)),
        trainable=_count(told.get("trainable")),
        parameters=_count(told.get("parameters")),
        lora_rank=_count(told.get("lora_rank")),
        rms=_sizes(told.get("rms"), len(names)),
        syncs=tuple(sorted(_syncs(documents, len(names)), key=lambda sync: sync.number)),
        failed="" if failed is None else _text(failed.get("why")) or "it does not say why",
        lost=lost,
    )


def _syncs(documents: Sequence[Document], tensors: int) -> Iterator[WeightSync]:
    """Yield the syncs that have a digest of each tensor: others show nothing."""
    for document in documents:
        number, digests = document.get("sync"), _texts(document.get("digests"))
        if document.get("kind") == "sync" and is_count(number) and len(digests) == tensors > 0:
            rounded = _texts(document.get("rounded"))
            yield WeightSync(
                number,
                digests,
                _count(document.get("step")),
                rounded if len(rounded) == tensors else (),
                _count(document.get("moving")) or 0,
                _rate(document) if _count(document.get("updates")) else None,
                _sizes(document.get("rms"), tensors),
            )


def _rate(document: Document) -> float | None:
    value = document.get("lr")
    return float(value) if _is_number(value) else None


def _sizes(value: Any, tensors: int) -> tuple[float, ...]:
    sizes = tuple(value) if isinstance(value, list) and all(map(_is_number, value)) else ()
    return sizes if len(sizes) == tensors else ()


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _shapes(value: Any, tensors: int) -> tuple[tuple[int, ...], ...]:
    shapes = [shape for shape in value[:_MOST_TENSORS] if isinstance(shape, list)] if isinstance(value, list) else []
    whole = tuple(tuple(size for size in shape if is_count(size)) for shape in shapes)
    return whole if len(whole) == tensors else ((),) * tensors


def _each(values: tuple[str, ...], tensors: int) -> tuple[str, ...]:
    return values if len(values) == tensors else ("",) * tensors


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value[:_MOST_TENSORS])) if isinstance(value, list) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if is_count(value) else None
