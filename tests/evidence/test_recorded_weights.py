"""Records of a run's weights: what shows that they moved and arrived, what contradicts it, and what is left alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rlx.evidence import Evidence, Verdict, judge
from rlx.evidence.reading.process_records import read_weights
from rlx.evidence.run_evidence import SERVED, TRAINED, WeightRecord, WeightSync
from rlx.evidence.traces import Setup, TraceStatus
from rlx.model import Expectations, NoiseProcess, RunState, WeightExpectation

STEPS = 10
GAP = "training/rollout_probs_diff_mean"
NAMES = ("model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.o_proj.weight", "model.norm.weight")
WHOLE = ((64,), (64, 64), (64,))
ID = {f"RLX{number}" for number in range(790, 799)} - {"RLX791"}


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def digests(version: object) -> tuple[str, ...]:
    return tuple(digest(version, name) for name in NAMES)


def trainer(versions: Sequence[object] = range(STEPS + 1), worker: int = 0, **more: Any) -> WeightRecord:
    """A worker whose weights have these versions at its syncs, each after one update."""
    syncs = tuple(
        WeightSync(number, digests(version), number, digests(("rounded", version)), int(number > 0))
        for number, version in enumerate(versions)
    )
    process = NoiseProcess(rank=worker)
    record = WeightRecord(
        TRAINED, f"weights-a-{worker}.jsonl", 1, process, NAMES, WHOLE, WHOLE, ("float32",) * 3, syncs=syncs
    )
    return replace(record, **more)


def engine(versions: Sequence[object] = range(STEPS + 1), replica: int = 0, **more: Any) -> WeightRecord:
    syncs = tuple(WeightSync(number, digests(version), number) for number, version in enumerate(versions))
    process = NoiseProcess(replica)
    record = WeightRecord(
        SERVED, f"weights-b-{replica}.jsonl", 1, process, NAMES, WHOLE, WHOLE, ("float32",) * 3, syncs=syncs
    )
    return replace(record, **more)


def without_steps(record: WeightRecord) -> WeightRecord:
    return replace(record, syncs=tuple(sync._replace(step=None) for sync in record.syncs))


def moving(record: WeightRecord, count: int) -> WeightRecord:
    return replace(record, syncs=tuple(sync._replace(moving=count) for sync in record.syncs))


_BFLOAT16: dict[str, Any] = {"dtypes": ("bfloat16",) * 3}
_HALF: dict[str, Any] = {"dtypes": ("float16",) * 3}
_FUSED = ("model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.qkv_proj.weight", "model.norm.weight")
_PARTS = tuple(f"model.layers.1.self_attn.{part}_proj.weight" for part in "qkv")
_ADAPTERS = tuple(f"base_model.model.model.layers.1.self_attn.q_proj.lora_{part}.default.weight" for part in "AB")
_ADAPTED = "model.layers.1.self_attn.q_proj.weight"
_APART = "model.layers.1.self_attn.qkv_proj.base_layer.weight"


def adapters(versions: Sequence[object] = range(STEPS + 1)) -> WeightRecord:
    return trainer(versions, names=_ADAPTERS + NAMES[:1], lora_rank=8)


def growing(per_sync: float, a: float = 0.05, versions: Sequence[object] = range(STEPS + 1)) -> WeightRecord:
    """A worker whose lora_B grows by so much at each sync."""
    record = adapters(versions)
    syncs = tuple(sync._replace(rms=(a, per_sync * sync.number, 1.0)) for sync in record.syncs)
    return replace(record, syncs=syncs)


def of_rank_1(record: WeightRecord) -> WeightRecord:
    return replace(record, source="weights-a-1.jsonl", process=NoiseProcess(rank=1))


def merged(versions: Sequence[object], **more: Any) -> WeightRecord:
    """An engine whose weights, of size 0.02, have the adapters in them."""
    own: dict[str, Any] = {"names": (_FUSED[1], *NAMES[1:]), "rms": (0.02, 0.02, 1.0)}
    return engine(versions, **(own | more))


_STALE = [0, 1, 2, 3, *[4] * 7]
_SMALL: dict[str, Any] = {"names": NAMES[:1], "shapes": WHOLE[:1], "whole": WHOLE[:1], "dtypes": ("bfloat16",)}


def only_norm(record: WeightRecord, **more: Any) -> WeightRecord:
    cut = tuple(sync._replace(digests=sync.digests[:1], rounded=sync.rounded[:1]) for sync in record.syncs)
    return replace(record, syncs=cut, **{**_SMALL, **more})


@dataclass(frozen=True)
class Case:
    name: str
    records: tuple[WeightRecord, ...]
    expected: set[str]
    status: str = "valid"
    promise: WeightExpectation | None = field(default_factory=lambda: WeightExpectation(1, 1))
    configuration: dict[str, Any] = field(default_factory=lambda: {"trainer": {"nnodes": 1}})
    gap: Callable[[int], float] = lambda step: 0.001
    state: RunState = RunState.FINISHED
    dissent: bool = False


_ASYNC = {"trainer": {"v1": {"trainer_mode": "separate_async"}}}
_LORA = {"actor_rollout_ref": {"model": {"lora_rank": 8}}}
TWO = WeightExpectation(2, 2)
CAUGHT = [
    Case("never-moved", (trainer([0] * 11), engine([0] * 11)), {"RLX790"}, "invalid"),
    Case("dead-from-step-5", (trainer(_STALE), engine(_STALE)), {"RLX790"}, "invalid"),
    Case("dead-on-both-workers", (trainer([0] * 11), trainer([0] * 11, 1), engine([0] * 11)), {"RLX790"}, "invalid",
         WeightExpectation(2, 1)),
    Case("adapters-that-never-moved", (adapters([0] * 11), engine([0] * 11)), {"RLX790"},
         "invalid", configuration=_LORA),
    Case("engine-keeps-the-base", (trainer(), engine([0] * 11)), {"RLX792"}, "invalid"),
    Case("sync-dead-from-step-4", (trainer(), engine(_STALE)), {"RLX792"}, "invalid"),
    Case("engine-without-steps", (trainer(), without_steps(engine(_STALE))), {"RLX792"}, "invalid"),
    Case("engine-in-bfloat16", (trainer(), engine(_STALE, **_BFLOAT16)), {"RLX792"}, "invalid"),
    Case("half-precision-that-drifts", (trainer(), engine(_STALE, **_HALF)), {"RLX792"}, "invalid",
         gap=lambda step: 0.002 * (step - 4) ** 2),
    Case("joined-tensors", (trainer(names=_PARTS), engine([0] * 11, names=_FUSED)), {"RLX792"}, "invalid"),
    Case("adapters-not-merged", (adapters(), engine([0] * 11, names=(_FUSED[1], *NAMES[1:]))),
         {"RLX792"}, "invalid", configuration=_LORA, gap=lambda step: 0.001 * step),
    Case("large-adapters-not-merged", (growing(2e-3), merged([0] * 11)), {"RLX792"}, "invalid", configuration=_LORA),
    Case("not-merged-in-bfloat16", (growing(2e-3), merged([0] * 11, **_BFLOAT16)), {"RLX792"}, "invalid",
         configuration=_LORA),
    Case("not-merged-in-half-precision", (growing(2e-3), merged([0] * 11, **_HALF)), {"RLX792"}, "invalid",
         configuration=_LORA),
    Case("not-merged-from-step-4", (growing(2e-3), merged(_STALE)), {"RLX792"}, "invalid", configuration=_LORA),
    Case("not-merged-where-nothing-is-joined", (growing(2e-3), merged([0] * 11, names=(_ADAPTED, *NAMES[1:]))),
         {"RLX792"}, "invalid", configuration=_LORA),
    Case("not-merged-into-either-part", (growing(2e-3), of_rank_1(growing(3e-3)), merged([0] * 11)), {"RLX792"},
         "invalid", WeightExpectation(2, 1), configuration=_LORA),
    Case("one-replica-in-two", (trainer(), trainer(worker=1), engine(), engine(_STALE, 1)), {"RLX792", "RLX797"},
         "invalid", TWO, dissent=True),
    Case("other-weights-in-one-replica", (trainer(), trainer(worker=1), engine(), engine([*range(10), 99], 1)),
         {"RLX797"}, "unverified", TWO, dissent=True),
    Case("other-weights-on-the-way", (trainer(), engine([*range(10), 99])), {"RLX794"}, "unverified", dissent=True),
    Case("too-few-syncs", (trainer(), engine(range(6))), {"RLX795"}, "invalid"),
    Case("a-trainer-that-never-sends", (trainer([0]), engine([0])), {"RLX795"}, "invalid"),
    Case("silent", (), {"RLX796"}, "unverified"),
    Case("engine-silent", (trainer(),), {"RLX796"}, "unverified"),
    Case("one-worker-silent", (trainer(), engine()), {"RLX796"}, "unverified", WeightExpectation(2, 1)),
    Case("lines-lost", (trainer(lost=1), engine()), {"RLX796"}, "unverified"),
]  # fmt: skip
LEFT_ALONE = [
    Case("sound", (trainer(), engine()), set()),
    Case("two-workers", (trainer(), trainer(worker=1), engine(), engine(replica=1)), set(), promise=TWO),
    Case("sound-in-bfloat16", (trainer(), engine(**_BFLOAT16)), set()),
    Case("not-promised", (), set(), promise=None),
    Case("one-worker-of-two-moves", (trainer([0] * 11), trainer(worker=1), engine()), set(),
         promise=WeightExpectation(2, 1)),
    Case("no-gradient-and-no-update", (moving(trainer(_STALE), 0), engine(_STALE)), set()),
    Case("four-updates", (trainer([0] * 5 + list(range(1, 7))), engine([0] * 5 + list(range(1, 7)))), set()),
    Case("norm-too-small-for-bfloat16", (trainer(), only_norm(engine([0] * 11))), {"RLX793"}),
    Case("half-precision", (trainer(), engine(_STALE, **_HALF)), {"RLX793"}),
    Case("other-tensors", (trainer(names=_PARTS), engine(_STALE)), set()),
    Case("adapters-kept-apart",
         (adapters(), engine([0] * 11, names=(_APART, *NAMES[1:]))), set(),
         configuration=_LORA),
    Case("adapters-lost-in-bfloat16",
         (adapters(), engine([0] * 11, names=(_FUSED[1], *NAMES[1:]))), {"RLX793"},
         configuration=_LORA),
    Case("adapters-too-small-for-bfloat16", (growing(1e-4), merged([0] * 11)), {"RLX793"}, configuration=_LORA),
    Case("one-part-too-small", (growing(2e-3), of_rank_1(growing(1e-4)), merged([0] * 11)), {"RLX793"},
         promise=WeightExpectation(2, 1), configuration=_LORA),
    Case("large-adapters-that-arrive", (growing(2e-3), merged(range(11))), set(), configuration=_LORA),
    Case("large-adapters-kept-apart", (growing(2e-3), merged([0] * 11, names=(_APART, *NAMES[1:]))), set(),
         configuration=_LORA),
    Case("large-adapters-in-eight-bits", (growing(2e-3), merged([0] * 11, dtypes=("float8_e4m3fn",) * 3)), {"RLX793"},
         configuration=_LORA),
    Case("large-adapters-that-stay", (growing(0.0), merged([0] * 11)), {"RLX793"}, configuration=_LORA),
    Case("a-form-of-its-own", (trainer(), engine([f"turned {step}" for step in range(11)])), set()),
    Case("eight-bits", (trainer(), engine(_STALE, dtypes=("float8_e4m3fn",) * 3)), {"RLX793"},
         configuration={"actor_rollout_ref": {"rollout": {"quantization": "fp8"}}},
         gap=lambda step: 0.002 * (step - 4) ** 2),
    Case("not-able", (WeightRecord("", "weights-a-1.jsonl", failed="no such place"),), {"RLX798"}),
    Case("warms-up-its-critic", (trainer(range(8)), engine(range(8))), set(), promise=WeightExpectation(1, 1, False)),
    Case("asynchronous", (trainer(), engine([0] * 11)), set(), configuration=_ASYNC),
    Case("still-running", (), set(), state=RunState.RUNNING),
]  # fmt: skip


def verdict_of(case: Case, rules: int = 3) -> Verdict:
    metrics = {step: {"actor/grad_norm": 1.0, "actor/lr": 1e-4, GAP: case.gap(step)} for step in range(1, STEPS + 1)}
    expectations = Expectations(STEPS, (), False, None, 1, "auto", None, False, weights=case.promise)
    evidence = Evidence(metrics=metrics, weights=case.records, backend="verl")
    setup = Setup(configuration=case.configuration)
    return judge(evidence, expectations, case.state, arm="main", setup=setup, rules=rules)


@pytest.mark.parametrize("case", [*CAUGHT, *LEFT_ALONE], ids=lambda case: case.name)
def test_records_of_the_weights(case: Case) -> None:
    verdict = verdict_of(case)
    found = {finding.id for finding in verdict.findings if finding.id in ID}
    assert found == case.expected, verdict.sentence
    if case.expected & {finding.id for finding in verdict.findings}:
        assert all(finding.message for finding in verdict.findings)
    charged = {"invalid": "invalid", "unverified": "unverified"}.get(case.status)
    assert charged is None or verdict.status == charged, verdict.sentence
    assert charged is not None or not {"invalid", "unverified"} & {verdict.status}, verdict.sentence
    assert verdict.dissent == case.dissent


@pytest.mark.parametrize("case", CAUGHT, ids=lambda case: case.name)
def test_earlier_rules_know_nothing_of_them(case: Case) -> None:
    assert not ID & {finding.id for finding in verdict_of(case, rules=2).findings}


@pytest.mark.parametrize(
    ("key", "value", "records", "shown"),
    [
        ("rollout.dtype", "float32", (engine(),), TraceStatus.SHOWN),
        ("rollout.dtype", "bfloat16", (engine(),), TraceStatus.CONTRADICTED),
        ("rollout.dtype", "bfloat16", (engine(dtypes=("float32", "bfloat16", "bfloat16")),), TraceStatus.SHOWN),
        ("rollout.dtype", "bfloat16", (trainer(),), TraceStatus.COMPOSED),
        ("model.lora_rank", 8, (trainer(lora_rank=8),), TraceStatus.SHOWN),
        ("model.lora_rank", 8, (trainer(lora_rank=16),), TraceStatus.CONTRADICTED),
        ("model.lora_rank", 8, (trainer(),), TraceStatus.CONTRADICTED),
        ("model.lora_rank", 0, (trainer(lora_rank=8),), TraceStatus.CONTRADICTED),
        ("model.lora_rank", 0, (trainer(),), TraceStatus.SHOWN),
        ("model.lora_rank", 8, (trainer(names=("model.layers.1._flat_param",)),), TraceStatus.COMPOSED),
        ("model.lora_rank", 8, (engine(),), TraceStatus.COMPOSED),
    ],
)
def test_precision_and_adapters_show_in_them(
    key: str, value: object, records: tuple[WeightRecord, ...], shown: TraceStatus
) -> None:
    section, name = key.split(".")
    configuration = {"actor_rollout_ref": {section: {name: value}}}
    verdict = verdict_of(Case("", records, set(), promise=None, configuration=configuration))
    wanted = "model.dtype" if section == "rollout" else "model.lora"
    (trace,) = (trace for trace in verdict.traces if trace.key == wanted)
    assert trace.shown is shown, trace
    assert (shown is TraceStatus.CONTRADICTED) == ("RLX646" in {finding.id for finding in verdict.findings})


GOOD = (
    {"kind": "tensors", "seq": 0, "role": "served", "names": ["a", "b"], "dtypes": ["float32"] * 2,
     "shapes": [[4], [4, 4]], "whole": [[4], [4, 4]]},
    *({"kind": "sync", "seq": 1 + number, "role": "served", "sync": number, "digests": [str(number)] * 2}
      for number in range(3)),
    {"kind": "end", "seq": 4, "count": 5},
)  # fmt: skip


def read(folder: Path, documents: Sequence[object]) -> tuple[WeightRecord, ...]:
    text = "".join(json.dumps(document) + "\n" for document in documents)
    (folder / "weights-a-1.jsonl").write_text(text, encoding="utf-8")
    return read_weights(folder)


def test_lost_and_doubled_lines_show(tmp_path: Path) -> None:
    (whole,) = read(tmp_path, GOOD)
    assert (len(whole.syncs), whole.lost, whole.failed) == (3, 0, "")
    (lost,) = read(tmp_path, [GOOD[0], GOOD[1], GOOD[3], GOOD[4]])
    assert (len(lost.syncs), lost.lost) == (2, 1)
    (cut,) = read(tmp_path, [*GOOD[:3], GOOD[4]])
    assert cut.lost == 1
    (doubled,) = read(tmp_path, [*GOOD[:2], GOOD[1], *GOOD[2:]])
    assert doubled == whole


@pytest.mark.parametrize(
    "key", ["names", "dtypes", "shapes", "whole", "digests", "sync", "role", "rounded", "step", "rms"]
)
@pytest.mark.parametrize("value", [None, [], ["x"], "text", -1, {"a": 1}, [[1], None]])
def test_any_other_value_is_read_and_judged(key: str, value: object, tmp_path: Path) -> None:
    changed = [{**document, key: value} if key in document or key in ("rounded", "step", "rms") else document
               for document in GOOD[:4]]  # fmt: skip
    records = (trainer(), *read(tmp_path, changed))
    verdict_of(Case("", records, set()))
    verdict_of(Case("", (*records, *(replace(each, role=TRAINED) for each in records[1:])), set()))
