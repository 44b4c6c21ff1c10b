"""The evidence of a run as plain values. Judges nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from rlx.evidence.reading.metric_table import MetricTable
from rlx.evidence.reading.usage_file import MemoryKills
from rlx.model import NoiseProcess
from rlx.model.attempt_lineage import Lineage

ROLLOUT = "rollout"
VALIDATION = "validation"
TRAINED, SERVED = "trained", "served"
LOG = "log"


@dataclass(frozen=True, slots=True)
class NoiseEvent:
    """One sync of rollout weights, with or without noise.

    `step`: for phase "rollout" the step whose rollout these weights generate, as the log counts it (`step:N`); for
    phase "validation" the step being validated, 0 before training; None where a log line does not say.
    `sigma`: standard deviation of the noise; 0.0 for clean weights, NaN where a log line does not say.
    `changed` of `elements` differed after rounding to the weights' dtype, by `effective_std` in the root mean square;
    None where the source does not count. `asked_std`: what that would be without rounding, where layers have factors
    on sigma; None: sigma. `kind` is the printed layer type ("RMSNorm"), "" where unknown.
    `found`: what the log says of the weights just before: "clean", or "noisy" where they could not be restored; ""
    where it says nothing. `per_layer`: sigma was multiplied layer by layer. `folded`: Ray printed this line in the
    place of several, so that others like it are not in the log.

    `shard`, `rank`, `node`: whose weights, beside `replica` (`rlx.model.NoiseProcess`). `skipped`: layers of the kind
    that were left out; None where the source does not count. `dtypes`: of the weights, joined by "+". `fingerprint`
    names the noise that was drawn, whatever it was multiplied by. Digests of the layers that take noise:
    `digest_before` first thing in this sync, `digest_clean` after receiving and restoring, `digest_after` after the
    noise; `digest_left` what the record before it in its file left, `digest_sent` what the last sync brought; "" where
    the source takes none, or lines between are lost. `attempt`: the one that wrote it, from 1. `measured`: what was
    measured of the step before, which sigma follows; None where it follows nothing, or nothing arrived. `draw`: which
    draw of the step, from 0. `answers`: how many were generated on these weights; None where they are not counted.
    `follows`: of a log line that names no step, the step line before it in the log, 0 for none; None for any other.
    """

    step: int | None
    sigma: float
    layers: int
    phase: str = ROLLOUT
    changed: int | None = None
    elements: int | None = None
    effective_std: float | None = None
    source: str = LOG
    replica: int = 0
    kind: str = ""
    found: str = ""
    per_layer: bool = False
    folded: bool = False
    asked_std: float | None = None
    shard: int = 0
    rank: int = 0
    node: int = 0
    skipped: int | None = None
    dtypes: str = ""
    fingerprint: str = ""
    digest_before: str = ""
    digest_clean: str = ""
    digest_after: str = ""
    digest_left: str = ""
    digest_sent: str = ""
    attempt: int = 1
    measured: float | None = None
    draw: int = 0
    answers: int | None = None
    follows: int | None = None

    @property
    def process(self) -> NoiseProcess:
        return NoiseProcess(self.replica, self.shard, self.rank, self.node)

    @property
    def is_noisy(self) -> bool:
        """Noise was added to some layer. An unknown sigma counts: such lines are printed for a sigma above 0 only."""
        return self.layers > 0 and self.sigma != 0

    @property
    def had_effect(self) -> bool:
        """Some weight still differed after rounding; assumed where the source does not count."""
        return self.is_noisy and self.changed != 0 and self.effective_std != 0


@dataclass(frozen=True, slots=True)
class NoiseSettings:
    """The settings that one process read, as it recorded them before its first noise.

    `content`: what it wrote, as JSON, including the content of aqn.json as that process read it. `digest`: of that
    file, as in `rlx.model.NoisePromise`; "" where the payload recorded none. `layers`: the names of the modules that
    take noise, and `elements` the number of their weights; empty and None where the payload did not record them.
    `layer_count`: the number of layers of all kinds.
    """

    process: NoiseProcess
    content: str
    digest: str = ""
    layers: tuple[str, ...] = ()
    elements: int | None = None
    layer_count: int | None = None
    source: str = ""
    attempt: int = 1

    @property
    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads(self.content)
        return settings


@dataclass(frozen=True, slots=True)
class ProbePair:
    """The same fixed rows, scored by request through the engine that serves, on clean and on noisy weights of one sync.

    `phase` and `step` as in NoiseEvent. `delta`: mean of |difference| of the log probabilities over `tokens` tokens.
    `floor`: the same between two looks at the same clean weights, the device's own; None where it was not asked.
    `missing`: why there is no score, in words; "" if there is one. `seconds` that all looks took. `cached`: tokens of a
    row that an ordinary request got from the engine's prefix cache, which must be empty then.
    """

    phase: str
    step: int
    process: NoiseProcess
    sigma: float
    delta: float | None
    floor: float | None
    tokens: int = 0
    cached: int = 0
    seconds: float = 0.0
    missing: str = ""
    source: str = ""
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class RecordCount:
    """The lines of one file of records: how many were lost or doubled, by their sequence numbers.

    `ended`: the writer said at its end how many it wrote, and that many are there.
    """

    source: str
    lines: int
    lost: int = 0
    doubled: int = 0
    ended: bool = False


class WeightSync(NamedTuple):
    """The digests of one sync, in the order of the names of its record.

    `number` counts the syncs of a process from 0; `step`: the last step that was trained before it, None where the
    process does not know. Of a trainer: `rounded`, digests of the same weights in bfloat16, () where they are no
    float32; `moving`, the optimizer's steps since the sync before with a learning rate and a gradient above 0; `rate`,
    the learning rate of the last of its steps, None where it took none since the sync before; `rms`, of each tensor of
    a trainer of adapters the root mean square, () where it is not recorded.
    """

    number: int
    digests: tuple[str, ...]
    step: int | None = None
    rounded: tuple[str, ...] = ()
    moving: int = 0
    rate: float | None = None
    rms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightRecord:
    """What one process recorded of its weights: TRAINED before each sync, SERVED after it.

    `names`: of the digested tensors; `shapes` and `dtypes` of the part that this process holds, `whole` the shapes of
    the tensors. `trainable` of all `parameters` take gradients; `lora_rank`: of its adapters; None: unknown, or none.
    `rms`: of an engine, the root mean square of each tensor at the first sync; () where it is not recorded.
    `failed`: why the process could not record, or continued without; "" where it could. `lost`: missing lines.
    """

    role: str
    source: str
    attempt: int = 1
    process: NoiseProcess = field(default_factory=NoiseProcess)
    names: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    whole: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    trainable: int | None = None
    parameters: int | None = None
    lora_rank: int | None = None
    syncs: tuple[WeightSync, ...] = ()
    rms: tuple[float, ...] = ()
    failed: str = ""
    lost: int = 0


class Announcement(NamedTuple):
    """A process announced before a sync which noise was due; that is not evidence of noise. `step` as in NoiseEvent."""

    step: int | None
    sigma: float
    epoch_aware: bool = False


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The run's totals as its log states them; None where it does not. Rows are rows of the data files in use.

    `logged_every`: metrics are logged every so many steps only.
    """

    total_steps: int | None = None
    train_rows: int | None = None
    validation_rows: int | None = None
    logged_every: int | None = None


class Progress(NamedTuple):
    """The last state of the progress bar, in steps."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Training continued from `step` again: a checkpoint was loaded, or the step counter went back."""

    attempt: int
    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class BegunAttempt:
    """A further attempt as it was planned and as it ran.

    `lineage`: None where none was recorded. `loaded`: the step of the checkpoint that its own log says it loaded;
    `first_step`: the first step that it trained; None: unknown.
    """

    attempt: int
    lineage: Lineage | None = None
    loaded: int | None = None
    first_step: int | None = None


class AttemptTime(NamedTuple):
    """How long an attempt lasted by the clock of its host, and by the times of its steps.

    `begun` and `ended` are in seconds since 1970; None where they are not recorded. `seconds`: the sum over the `steps`
    that it logged a time for.
    """

    attempt: int
    begun: float | None
    ended: float | None
    steps: int
    seconds: float


class FaultKind(StrEnum):
    """What a log line reports as failed while the training continued."""

    REWARD = "reward"
    OPTIMIZER = "optimizer"


class LoggedFault(NamedTuple):
    """A fault that the log reports, the number of times, and its first line."""

    kind: FaultKind
    number: int
    first: str


class Intervention(NamedTuple):
    """A command of a user's script, and what was done in its place to keep it within the run."""

    command: str
    done: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two sources, or two lines of one source, give one metric of one step different values."""

    step: int
    key: str
    sources: tuple[str, str]
    values: tuple[float, float]


class Counted(NamedTuple):
    """A number of answers, and an example in words; "" for none."""

    number: int = 0
    example: str = ""


NO_ANSWERS = Counted()


class Replayed(NamedTuple):
    """The result of replaying a grader on the answers of a validation.

    `right`, `wrong`: how many it grades so. `refused`: right ones that were scored 0. `accepted`: wrong ones that were
    scored 1.
    """

    right: int = 0
    wrong: int = 0
    refused: Counted = NO_ANSWERS
    accepted: Counted = NO_ANSWERS


@dataclass(frozen=True, slots=True)
class KeptAnswers:
    """The answers that one validation kept. `answers` counts the lines, `read` those that are answers with a score.

    `items`: how many distinct ones, None for more than are counted. `digest`: of all answers with their items,
    regardless of order, ids, scores and step. `ids`: the smallest digests of ids that are generated anew for each
    validation. `sources`: the data sources named in the lines. `is_multi_turn`: some lines are a turn of a longer
    conversation. `replays`: by grader. `one_for_many`: for how many different truths one answer text was scored right,
    at least three. `graded_before`: the answers that an earlier validation of the run, or this one, has with another
    score.
    """

    answers: int
    read: int = 0
    items: int | None = 0
    digest: str = ""
    ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    is_multi_turn: bool = False
    replays: Mapping[str, Replayed] = field(default_factory=dict)
    one_for_many: Counted = NO_ANSWERS
    graded_before: Counted = NO_ANSWERS


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that rlx read from the logs of a run: of all attempts, the later one replaces the earlier per step.

    `metrics`: step -> metric name -> value, steps ascending; a value may be NaN. `attempts`: how many have a log.
    `answers`: step -> how many answers its validation kept, where the run keeps them; `outputs`: what they show.
    `missing`: which part of the logs could not be read, in words; empty if none. `conflicts`: where another record that
    claims to be the same run has other values. `announced`: the noise that the log only announces, each once.
    `has_hole`: zero bytes precede a line of a log that was read. `settings`: dotted key of the back-end -> value, as
    far as the run's configuration is known. `backend`: its `backend.kind`; empty for a log of an unknown back-end.
    `noise_settings`, `probes`, `records`: what the processes that generate wrote besides their noise events. `weights`:
    what the processes recorded of the weights that they train and that they generate with. `memory_kills`: the attempts
    during which the kernel killed processes because memory ran out. `unproven`: in words, what was read by a grammar
    that no real log has confirmed yet; empty if nothing. `begun`: the further attempts that count. `reconfigured`: in
    words, where they ran with other settings than before. `times`: of the attempts that ended. `faults`: those that the
    log reports although the training continued. `setting_mismatches`: in words, which settings of the plan the engine
    composed with another value. `interventions`: which commands of a user's script were kept within the run.
    `digest`: identifies the files that it was read from, and the rlx that read them; empty where they may still be
    written to, or nothing was kept of them. What was added later is not in it.
    """

    metrics: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    noise: Sequence[NoiseEvent] = ()
    totals: RunTotals = RunTotals()
    progress: Progress | None = None
    disagreements: tuple[Disagreement, ...] = ()
    restarts: tuple[Restart, ...] = ()
    attempts: int = 1
    answers: Mapping[int, int] = field(default_factory=dict)
    outputs: Mapping[int, KeptAnswers] = field(default_factory=dict)
    missing: str = ""
    conflicts: tuple[Disagreement, ...] = ()
    announced: tuple[Announcement, ...] = ()
    has_hole: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    backend: str = ""
    unproven: str = ""
    noise_settings: tuple[NoiseSettings, ...] = ()
    probes: tuple[ProbePair, ...] = ()
    records: tuple[RecordCount, ...] = ()
    weights: tuple[WeightRecord, ...] = ()
    memory_kills: tuple[MemoryKills, ...] = ()
    begun: tuple[BegunAttempt, ...] = ()
    reconfigured: tuple[str, ...] = ()
    setting_mismatches: tuple[str, ...] = ()
    times: tuple[AttemptTime, ...] = ()
    faults: tuple[LoggedFault, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    digest: str = field(default="", compare=False)

    @property
    def last_step(self) -> int:
        """The last step with metrics; 0 where there is none."""
        if isinstance(self.metrics, MetricTable):
            return self.metrics.steps[-1] if self.metrics.steps else 0
        return max(self.metrics, default=0)

    @property
    def total_steps(self) -> int | None:
        """The planned number of steps, from the run's own log line or its progress bar."""
        if self.totals.total_steps is not None:
            return self.totals.total_steps
        return self.progress.total if self.progress else None
