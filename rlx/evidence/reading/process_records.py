"""Read the records that each process of a run wrote to a file of its own: of its noise, and of its weights.

The processes that generate record settings, events and probes of noise; trainers and engines record which tensors they
hold, and a digest of each at each sync. A truncated last line is normal in a running run, so a line that does not parse
is skipped and never an error. Lines carry a sequence number, which shows lost lines and makes doubled ones count once;
those of rlx 0.1 and 0.2 have none. Sources: rlx/payload/rlx_aqn_events.py, rlx/payload/rlx_weights.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path, PurePath
from typing import Any, TypeGuard

from rlx.evidence.reading.metrics_file import is_count, is_number, read_document
from rlx.evidence.reading.scan import matching_lines
from rlx.evidence.run_evidence import (
    ROLLOUT,
    SERVED,
    TRAINED,
    VALIDATION,
    Intervention,
    NoiseEvent,
    NoiseSettings,
    ProbePair,
    RecordCount,
    WeightRecord,
    WeightSync,
)
from rlx.model import NoiseProcess
from rlx.model.run_dir import INTERVENTIONS_FILE

NEEDLES = (b'"kind"',)
WEIGHTS = "weights-"
"""The prefix of the files with weight records."""
_OTHERS = (WEIGHTS, PurePath(INTERVENTIONS_FILE).name)
_MOST_INTERVENTIONS = 1000
RULES = "noise records 5"
"""To be changed whenever rlx reads the same bytes differently."""
_MOST_LAYERS = 100_000

Document = Mapping[str, Any]
WEIGHT_RULES = "weight records 3"
"""To be changed whenever rlx reads the same bytes differently."""
_MOST_TENSORS = 64


@dataclass(frozen=True, slots=True)
class NoiseRecords:
    """The records of one attempt, events and probes by time of writing."""

    events: tuple[NoiseEvent, ...] = ()
    settings: tuple[NoiseSettings, ...] = ()
    probes: tuple[ProbePair, ...] = ()
    counts: tuple[RecordCount, ...] = ()


def read_records(folder: Path, attempt: int = 1) -> NoiseRecords:
    """Read the noise records in this folder of events; empty where there is none."""
    lines: list[tuple[float, str, Document]] = []
    counts = []
    for path in sorted(folder.glob("*.jsonl")):
        if path.name.startswith(_OTHERS):
            continue
        own, count = numbered(path.name, list(documents_in(path)))
        counts.append(count)
        lines += _by_time(path.name, _with_history(own))
    lines.sort(key=lambda line: line[0])
    read = [(_READERS[str(document["kind"])], document, name) for _, name, document in lines if _is_known(document)]
    values = [value for reader, document, name in read if (value := reader(document, name, attempt)) is not None]
    return NoiseRecords(
        events=tuple(value for value in values if isinstance(value, NoiseEvent)),
        settings=tuple(value for value in values if isinstance(value, NoiseSettings)),
        probes=tuple(value for value in values if isinstance(value, ProbePair)),
        counts=tuple(counts),
    )


def documents_in(path: Path) -> Iterator[Document]:
    """Read the complete lines of a file of records; nothing where it cannot be read."""
    try:
        stream = path.open("rb")
    except OSError:
        return
    with stream:
        yield from map(read_document, matching_lines(stream, NEEDLES, last_line_complete=True))


def numbered(name: str, documents: Sequence[Document]) -> tuple[list[Document], RecordCount]:
    """Take each number once, and count what is missing between the first line and the last, or the recorded end."""
    seen: set[int] = set()
    kept, doubled = [], 0
    for document in documents:
        number = document.get("seq")
        if is_count(number) and number in seen:
            doubled += 1
            continue
        if is_count(number):
            seen.add(number)
        kept.append(document)
    told = max((count for document in kept if is_count(count := document.get("count"))), default=0)
    lost = max(max(seen, default=-1) + 1, told) - len(seen) if seen else 0
    ended = bool(told) and not lost
    return kept, RecordCount(name, len(kept), lost, doubled, ended)


def _with_history(documents: Sequence[Document]) -> Iterator[Document]:
    """Add to each noise line what the lines before it in its file say of its weights; nothing after a gap."""
    left = sent = ""
    expected = 0
    answers = _answers(documents)
    for document in documents:
        if document.get("seq") != expected:
            left = sent = ""
        expected = number + 1 if is_count(number := document.get("seq")) else 0
        if document.get("kind") != "noise":
            yield document
            continue
        sent = _text(document.get("digest_clean")) if document.get("synced") is True else sent
        yield {**document, "left": left, "sent": sent, "answers": answers.get(document.get("seq"))}
        left = _text(document.get("digest_after"))


def _answers(documents: Sequence[Document]) -> Mapping[Any, int]:
    """Count the answers that were generated on the weights of each noise line: the next noise line states it."""
    noise = [document for document in documents if document.get("kind") == "noise"]
    counts = ((line.get("seq"), _count(after.get("answered"))) for line, after in pairwise(noise))
    return {number: count for number, count in counts if is_count(number) and count is not None}


def _by_time(name: str, documents: Iterable[Document]) -> Iterator[tuple[float, str, Document]]:
    """Keep the order of each file, even if its clock went back."""
    latest = 0.0
    for document in documents:
        time = document.get("time")
        latest = max(latest, time if is_number(time) else 0.0)
        yield latest, name, document


def _is_known(document: Document) -> bool:
    return isinstance(kind := document.get("kind"), str) and kind in _READERS


def _event(document: Document, source: str, attempt: int) -> NoiseEvent | None:
    step, layers, sigma = document.get("step"), document.get("layers"), document.get("sigma")
    if document.get("phase") not in (ROLLOUT, VALIDATION):
        return None
    if not (is_count(step) and is_count(layers) and is_number(sigma)):
        return None
    asked, process = document.get("asked_std"), process_of(document)
    return NoiseEvent(
        step=step,
        sigma=float(sigma),
        layers=layers,
        phase=document["phase"],
        changed=_count(document.get("changed")),
        elements=_count(document.get("elements")),
        effective_std=_number(document.get("effective_std")),
        source=source,
        replica=process.replica,
        asked_std=float(asked) if is_number(asked) and asked > 0 else None,
        shard=process.shard,
        rank=process.rank,
        node=process.node,
        skipped=_count(document.get("skipped")),
        dtypes="+".join(_texts(document.get("dtypes"))),
        fingerprint=_text(document.get("fingerprint")),
        digest_before=_text(document.get("digest_before")),
        digest_clean=_text(document.get("digest_clean")),
        digest_after=_text(document.get("digest_after")),
        digest_left=document.get("left", ""),
        digest_sent=document.get("sent", ""),
        attempt=attempt,
        measured=_number(document.get("measured")),
        draw=_count(document.get("draw")) or 0,
        answers=document.get("answers"),
    )


def _settings(document: Document, source: str, attempt: int) -> NoiseSettings:
    return NoiseSettings(
        process=process_of(document),
        content=json.dumps(document, sort_keys=True),
        digest=_text(document.get("digest")),
        layers=_texts(document.get("layers")),
        elements=_count(document.get("elements")),
        layer_count=_reached(document.get("reached")),
        source=source,
        attempt=attempt,
    )


def _reached(reached: Any) -> int | None:
    """Count the layers of all kinds that the settings of a process select."""
    kinds = reached.get("layer_types") if isinstance(reached, Mapping) else None
    counts = list(kinds.values()) if isinstance(kinds, Mapping) else []
    return sum(counts) if counts and all(is_count(count) for count in counts) else None


def _probe(document: Document, source: str, attempt: int) -> ProbePair | None:
    step, sigma = document.get("step"), document.get("sigma")
    if document.get("phase") not in (ROLLOUT, VALIDATION) or not (is_count(step) and is_number(sigma)):
        return None
    delta, floor, tokens = document.get("delta"), document.get("floor"), _count(document.get("tokens")) or 0
    nothing = _scores_nothing(delta, floor, tokens)
    return ProbePair(
        phase=document["phase"],
        step=step,
        process=process_of(document),
        sigma=float(sigma),
        delta=None if nothing else _number(delta),
        floor=None if nothing else _number(floor),
        tokens=tokens,
        cached=_count(document.get("cached")) or 0,
        seconds=_number(document.get("seconds")) or 0.0,
        missing=nothing or _text(document.get("missing")),
        source=source,
        attempt=attempt,
    )


def _scores_nothing(delta: Any, floor: Any, tokens: int) -> str:
    """Explain why a recorded difference is none: of no tokens, or not a number. "" if it is one."""
    if delta is None:
        return ""
    if not tokens:
        return "no token was scored"
    numbers = [value for value in (delta, floor) if is_number(value)]
    return "" if all(map(math.isfinite, numbers)) else "the engine gave scores that are no numbers"


_READERS = {"noise": _event, "settings": _settings, "probe": _probe}


def process_of(document: Document) -> NoiseProcess:
    own = document.get("process")
    told = own if isinstance(own, Mapping) else document
    return NoiseProcess(*(_count(told.get(name)) or 0 for name in ("replica", "shard", "rank", "node")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any, most: int = _MOST_LAYERS) -> tuple[str, ...]:
    return tuple(map(str, value[:most])) if isinstance(value, list) else ()


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _count(value: Any) -> int | None:
    return value if is_count(value) else None


def read_weights(folder: Path, attempt: int = 1) -> tuple[WeightRecord, ...]:
    """Read the weight records in this folder of events; nothing where there is none."""
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
    names = _texts(told.get("names"), _MOST_TENSORS)
    return WeightRecord(
        role,
        name,
        attempt,
        process_of(documents[0]),
        names=names,
        shapes=_shapes(told.get("shapes"), len(names)),
        whole=_shapes(told.get("whole"), len(names)),
        dtypes=_each(_texts(told.get("dtypes"), _MOST_TENSORS), len(names)),
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
        number, digests = document.get("sync"), _texts(document.get("digests"), _MOST_TENSORS)
        if document.get("kind") == "sync" and is_count(number) and len(digests) == tensors > 0:
            rounded, rate = _texts(document.get("rounded"), _MOST_TENSORS), document.get("lr")
            yield WeightSync(
                number,
                digests,
                _count(document.get("step")),
                rounded if len(rounded) == tensors else (),
                _count(document.get("moving")) or 0,
                float(rate) if _count(document.get("updates")) and _is_number(rate) else None,
                _sizes(document.get("rms"), tensors),
            )


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


def read_interventions(attempt_dir: Path) -> tuple[Intervention, ...]:
    """Read which commands of a user's script were kept within the run; empty where there are none."""
    documents = islice(documents_in(attempt_dir / INTERVENTIONS_FILE), _MOST_INTERVENTIONS)
    texts = ((_text(each.get("command")), _text(each.get("done"))) for each in documents)
    return tuple(Intervention(command, done) for command, done in texts if command and done)
