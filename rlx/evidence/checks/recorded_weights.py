"""Check by digests that the optimizer moved the weights, and the engine received them: RLX790, RLX792 to RLX798.

Each process that trains digests a few tensors before it sends its weights, each process that generates digests the same
tensors after it has received them (rlx/payload/rlx_weights.py). Several trainers hold parts of a tensor and an engine
may join tensors, so that changes of digests are compared; the digests themselves only where both ends hold the same
whole tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import training_steps
from rlx.evidence.checks.served_weights import CHECK_SYNC, FEWEST_UPDATES, drift_of
from rlx.evidence.modes import Mode
from rlx.evidence.run_evidence import SERVED, TRAINED, Evidence, WeightRecord, WeightSync
from rlx.evidence.verdict import CheckFinding, contradiction, counted, invalid, remark, unverified
from rlx.model import Severity, WeightExpectation

_NOT_OBSERVABLE = frozenset({Mode.ASYNCHRONOUS, Mode.OFF_POLICY, Mode.PARTIAL_ROLLOUTS})
"""Syncs come there at other moments than the steps; no run of them has been recorded yet."""
_CHECK_RECORD = (
    "search the log for `rlx_weights`; the disk was full, the process was killed, or its events/ were not copied"
)
_PART = re.compile(r"\.(?:weight|bias|base_layer|lora_[AB]|default|linear)(?=\.|$)")
_FUSED = (
    (re.compile(r"\b[qkv]_proj\b"), "qkv_proj"),
    (re.compile(r"\b(?:gate|up)_proj\b"), "gate_up_proj"),
    (re.compile(r"\.experts\b.*"), ".experts"),
)
_ROLES = (TRAINED, SERVED)
_FLAT, _BASE = "_flat_param", ".base_layer."
_BFLOAT16_UNIT = 2.0**-8
_WHOLE_WEIGHTS = ("float32", "bfloat16", "float16")
_OWN_GAP = frozenset({Mode.QUANTISED_ROLLOUT, Mode.MOE})
"""Where the gap between rollout and actor grows in sound trainings, too."""


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report weights that did not move, or did not arrive, and planned records that are missing."""
    promise, records = given.expectations.weights, given.evidence.weights
    if given.modes & _NOT_OBSERVABLE or (promise is None and not records):
        return
    trained, served = ([each for each in records if each.role == role and each.syncs] for role in _ROLES)
    yield from _never_moved(trained)
    stale = list(_stale(given, trained, served))
    yield from stale or _unequal(given, trained, served)
    yield from _unlike(served)
    if given.state.is_terminal:
        yield from _too_few(given.evidence, promise, trained, served)
        yield from _silent(given.evidence, promise, trained, served)


def _never_moved(trained: Sequence[WeightRecord]) -> Iterator[CheckFinding]:
    for _, own in groupby(trained, key=lambda record: record.attempt):
        records = list(own)
        stretch = max(_unmoved(records), key=lambda each: each.updates, default=None)
        if stretch is None or stretch.updates < FEWEST_UPDATES:
            continue
        tensors = sum(len(record.names) for record in records)
        yield invalid(
            "RLX790",
            f"nothing was trained from {stretch.first} to {stretch.last}: none of "
            f"{counted(tensors, 'digested tensor')} in {counted(len(records), 'process', 'processes')} changed, over "
            f"{counted(stretch.updates, 'update')} with a learning rate and a gradient above 0",
            "check that the optimizer has the parameters that are trained, and that its step changes them",
            stretch.step,
        )


@dataclass(frozen=True, slots=True)
class UnchangedSyncs:
    """Consecutive syncs of equal digests, and the updates between them."""

    before: WeightSync
    after: WeightSync
    updates: int

    @property
    def first(self) -> str:
        return _place(self.before)

    @property
    def last(self) -> str:
        return _place(self.after)

    @property
    def step(self) -> int | None:
        return None if self.before.step is None else self.before.step + 1


def _place(sync: WeightSync) -> str:
    return f"sync {sync.number}" if sync.step is None else f"the sync of step {sync.step}"


def _places(syncs: Sequence[WeightSync]) -> str:
    """Write `the sync of step 3`, `the sync of step 3 and 2 other syncs`."""
    others = len(syncs) - 1
    return f"{_place(syncs[0])} and {counted(others, 'other sync')}" if others else _place(syncs[0])


def _unmoved(records: Sequence[WeightRecord]) -> Iterator[UnchangedSyncs]:
    """Yield the ranges of syncs in which no tensor of any of these processes changed."""
    by_number = [{sync.number: sync for sync in record.syncs} for record in records]
    numbers = sorted(set.intersection(*map(set, by_number)))
    begun: WeightSync | None = None
    updates = 0
    for earlier, later in pairwise(numbers):
        same = later == earlier + 1 and all(own[earlier].digests == own[later].digests for own in by_number)
        if not same:
            begun, updates = None, 0
            continue
        begun = begun or by_number[0][earlier]
        updates += min(own[later].moving for own in by_number)
        yield UnchangedSyncs(begun, by_number[0][later], updates)


def _stale(
    given: CheckInput, trained: Sequence[WeightRecord], served: Sequence[WeightRecord]
) -> Iterator[CheckFinding]:
    """Report the engine whose weights stayed the same the longest while those of the trainer moved."""
    found = [(record, stretch) for record in served for stretch in _stale_stretches(trained, record)]
    found = [(record, stretch) for record, stretch in found if stretch.updates >= FEWEST_UPDATES]
    if not found:
        return
    record, stretch = max(found, key=lambda item: item[1].updates)
    processes = len({each.source for each, _ in found})
    stood = (
        f"the weights of {record.process} stayed the same from {stretch.first} to {stretch.last}, and those of the "
        f"trainer moved before {counted(stretch.updates, 'sync')}"
        f"{f' ({processes} processes in total)' if processes > 1 else ''}"
    )
    steps = range((stretch.before.step or 0) + 1, (stretch.after.step or given.evidence.last_step) + 1)
    drift = "" if given.modes & _OWN_GAP else drift_of(given, steps)
    trainers = [each for each in trained if each.attempt == record.attempt]
    # Adapters merged in bfloat16 during the sync may leave the base unchanged, also in an engine of float32.
    shows = _shows_adapters(trainers, record, stretch) if Mode.LORA in given.modes else _shows_small_steps(record)
    if drift or shows:
        message = f"the engine that generates did not receive what was trained: {stood}{f'; {drift}' if drift else ''}"
        yield invalid("RLX792", message, CHECK_SYNC, stretch.step)
    else:
        message = f"{stood}: a sync without effect, or updates too small for {record.dtypes[0]}"
        yield remark("RLX793", Severity.NOTE, message, "float32 shows small updates", stretch.step)


def _shows_small_steps(record: WeightRecord) -> bool:
    """Tell whether an update that moves the trainer must be visible here: norms alone are not sufficient."""
    return any(
        dtype == "float32" or (dtype == "bfloat16" and len(whole) > 1)
        for dtype, whole in zip(record.dtypes, record.whole, strict=False)
    )


def _shows_adapters(trainers: Sequence[WeightRecord], served: WeightRecord, stretch: UnchangedSyncs) -> bool:
    """Tell whether adapters changed by more than bfloat16 rounds away in the weights that they are merged into.

    The change of a product B·A is about that of B times A, by their root mean squares; its factor alpha / rank
    compensates for one over the square root of the rank. A change that is larger than one unit in the last place of a
    weight of the usual size changes most of them, and the smaller ones first.
    """
    syncs = {sync.number: theirs for sync, theirs in _paired(trainers, served)}
    ends = zip(trainers, syncs[stretch.before.number], syncs[stretch.after.number], strict=True)
    changes: dict[str, list[float]] = {}
    for record, first, last in ends:
        for module, a, b in _adapters(record):
            if first.rms and last.rms:
                change = abs(last.rms[b] - first.rms[b]) * min(first.rms[a], last.rms[a])
                changes.setdefault(module, []).append(change)
    return any(
        min(changes.get(_module(name), [0.0])) > _BFLOAT16_UNIT * size > 0
        for name, dtype, size in zip(served.names, served.dtypes, served.rms, strict=False)
        if _BASE not in name and dtype in _WHOLE_WEIGHTS
    )


def _adapters(record: WeightRecord) -> Iterator[tuple[str, int, int]]:
    """Yield the module, as an engine names it, and the indices of A and B of each adapter with both digested."""
    places = {name: place for place, name in enumerate(record.names)}
    for name, place in places.items():
        other = places.get(name.replace(".lora_A.", ".lora_B."), place)
        if other != place:
            yield _module(name), place, other


def _stale_stretches(trained: Sequence[WeightRecord], served: WeightRecord) -> Iterator[UnchangedSyncs]:
    trainers = [record for record in trained if record.attempt == served.attempt]
    pairs = list(_paired(trainers, served))
    begun: WeightSync | None = None
    moved = 0
    for (before, theirs_before), (after, theirs_after) in pairwise(pairs):
        if before.digests != after.digests:
            begun, moved = None, 0
            continue
        begun = begun or before
        moved += _has_moved(trainers, theirs_before, theirs_after, served)
        yield UnchangedSyncs(begun, after, moved)


def _paired(
    trainers: Sequence[WeightRecord], served: WeightRecord
) -> Iterator[tuple[WeightSync, Sequence[WeightSync]]]:
    """Pair each sync of an engine with what the trainers sent: by step where both know it, else by order."""
    knows_step = all(sync.step is not None for record in (*trainers, served) for sync in record.syncs)
    if not knows_step and any(len(record.syncs) != len(served.syncs) for record in trainers):
        return
    by_key = [{_key(sync, knows_step): sync for sync in record.syncs} for record in trainers]
    for sync in served.syncs:
        key = _key(sync, knows_step)
        if by_key and all(key in own for own in by_key):
            yield sync, [own[key] for own in by_key]


def _key(sync: WeightSync, knows_step: bool) -> int | None:
    return sync.step if knows_step else sync.number


def _has_moved(
    trainers: Sequence[WeightRecord],
    before: Sequence[WeightSync],
    after: Sequence[WeightSync],
    served: WeightRecord,
) -> bool:
    """Tell whether a tensor that the engine also digests moved in some trainer, in the precision of the engine.

    An engine that keeps adapters separate digests the base below them, which does not change.
    """
    own = {_module(name): dtype for name, dtype in zip(served.names, served.dtypes, strict=False) if _BASE not in name}
    return any(
        _in_precision(earlier, dtype)[place] != _in_precision(later, dtype)[place]
        for record, earlier, later in zip(trainers, before, after, strict=True)
        for place, dtype in _shared(record, own)
    )


def _shared(record: WeightRecord, served: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Find the tensors of a trainer that an engine digests, alone or as a part."""
    for place, name in enumerate(record.names):
        module = _module(name)
        if _FLAT in name:
            layer = module.partition(_FLAT)[0]
            module = next((each for each in served if each.startswith(layer)), "")
        if module in served:
            yield place, served[module]


def _module(name: str) -> str:
    """Name the module of a tensor as an engine does, which joins some and names the model around it differently."""
    head, mark, tail = f".{name}".partition(".layers.")
    found = f"layers.{tail}" if mark else ".".join(head.split(".")[-2:])
    for pattern, joined in _FUSED:
        found = pattern.sub(joined, found)
    return _PART.sub("", found)


def _in_precision(sync: WeightSync, dtype: str) -> tuple[str, ...]:
    return sync.rounded if dtype != "float32" and sync.rounded else sync.digests


def _unequal(
    given: CheckInput, trained: Sequence[WeightRecord], served: Sequence[WeightRecord]
) -> Iterator[CheckFinding]:
    """Report an engine that holds another whole tensor than the trainer sent.

    Adapters are added on the way, and an engine may keep a tensor in its own format: then it is never equal.
    """
    if Mode.LORA in given.modes:
        return
    for record in served:
        trainers = [each for each in trained if each.attempt == record.attempt]
        both = _same_tensors(trainers[0], record) if len(trainers) == 1 else []
        pairs = list(_paired(trainers, record))
        alike = [
            (mine, place)
            for mine, place in both
            if any(sync.digests[mine] == theirs[0].digests[place] for sync, theirs in pairs)
        ]
        other = [
            sync
            for sync, theirs in pairs
            if any(sync.digests[mine] != theirs[0].digests[place] for mine, place in alike)
        ]
        if other:
            yield contradiction(
                "RLX794",
                f"{record.process} holds other weights than the trainer sent, after {_places(other)}",
                "find out what changes weights between the trainer and the engine",
                None if other[0].step is None else other[0].step + 1,
            )
            return


def _same_tensors(trainer: WeightRecord, engine: WeightRecord) -> list[tuple[int, int]]:
    def whole(record: WeightRecord) -> Iterator[tuple[tuple[str, str, tuple[int, ...]], int]]:
        for place, (name, dtype, own, full) in enumerate(
            zip(record.names, record.dtypes, record.shapes, record.whole, strict=False)
        ):
            if own == full:
                yield (name, dtype, own), place

    theirs = dict(whole(trainer))
    return [(place, theirs[key]) for key, place in whole(engine) if key in theirs]


def _unlike(served: Sequence[WeightRecord]) -> Iterator[CheckFinding]:
    """Report engines that received other weights than another one that holds the same part of the model."""
    groups: dict[object, list[WeightRecord]] = {}
    for record in served:
        if not any(".experts." in name for name in record.names):
            key = record.attempt, record.process.rank, record.names, record.shapes, record.dtypes, len(record.syncs)
            groups.setdefault(key, []).append(record)
    for own in groups.values():
        syncs = list(zip(*(record.syncs for record in own), strict=True))
        if other := [row[0] for row in syncs if len({sync.digests for sync in row}) > 1]:
            yield contradiction(
                "RLX797",
                f"{len(own)} engines that hold the same part of the model had other weights after {_places(other)}",
                "check that the weight sync reaches each of them",
                None if other[0].step is None else other[0].step + 1,
            )
            return


def _too_few(
    evidence: Evidence,
    promise: WeightExpectation | None,
    trained: Sequence[WeightRecord],
    served: Sequence[WeightRecord],
) -> Iterator[CheckFinding]:
    """Report missing syncs. Each attempt of a resumed run has its own, and their number is not known."""
    whole = [record for record in (*trained, *served) if not record.failed and not record.lost]
    if promise is None or not promise.syncs_each_step or evidence.attempts > 1 or evidence.restarts or not whole:
        return
    due = len(training_steps(evidence)) + 1
    fewest = min(whole, key=lambda record: len(record.syncs))
    if len(fewest.syncs) < due:
        who = "the trainer sent its weights" if fewest.role == TRAINED else f"{fewest.process} received weights"
        yield invalid(
            "RLX795",
            f"{who} {counted(len(fewest.syncs), 'time')}, and {due} syncs were due: one before the training and one "
            f"after each of {counted(due - 1, 'step')}",
            CHECK_SYNC,
            fewest.syncs[-1].step,
        )


def _silent(
    evidence: Evidence,
    promise: WeightExpectation | None,
    trained: Sequence[WeightRecord],
    served: Sequence[WeightRecord],
) -> Iterator[CheckFinding]:
    """Report missing records, and remark on processes that recorded why they have none."""
    if failed := [record for record in evidence.weights if record.failed]:
        message = f"the weights were not recorded in {counted(_sources(failed), 'file')}: {failed[0].failed}"
        yield remark("RLX798", Severity.NOTE, message, "use a version of the back-end whose weights rlx can record")
    if promise is None or not training_steps(evidence):
        return
    parts = [
        f"{_sources(own)} of {due} processes that {what}"
        for own, due, what in ((trained, promise.trainers, "train"), (served, promise.engines, "generate"))
        if not failed and _sources(own) < due
    ]
    if parts:
        yield unverified("RLX796", f"the weights were recorded in {' and '.join(parts)} only", _CHECK_RECORD)
    elif lost := sum(record.lost for record in {record.source: record for record in evidence.weights}.values()):
        yield unverified("RLX796", f"{counted(lost, 'line')} of the weight records are lost", _CHECK_RECORD)


def _sources(records: Iterable[WeightRecord]) -> int:
    return len({(record.source, record.attempt) for record in records})


def sentence(evidence: Evidence) -> Iterator[str]:
    """Yield `weights moved before 8 of 8 syncs and reached 1 engine`; nothing for a run without such records."""
    trained, served = ([each for each in evidence.weights if each.role == role and each.syncs] for role in _ROLES)
    if trained and served:
        pairs = list(pairwise(trained[0].syncs))
        moved = sum(before.digests != after.digests for before, after in pairs)
        reached = counted(_sources(served), "engine")
        yield f"weights moved before {moved} of {counted(len(pairs), 'sync')} and reached {reached}"
