"""The grammar of a back-end's log: how its lines read, what its metrics are called, which failures are known.

Each back-end has a module or package `log` with one `GRAMMAR`. It imports only the standard library, this package and
the packages below, because `rlx status` loads all of them: an imported log may be of any back-end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from rlx.evidence.modes import Mode
from rlx.evidence.run_evidence import Announcement, Evidence, LoggedFault, NoiseEvent, Progress
from rlx.evidence.traces import Trace

CLEAN, NOISY = "clean", "noisy"
# No digit may be read in two ways: for a value of 20,000 of them, that would take half a minute.
_VALUE = re.compile(
    r"(?:np\.\w+\()?([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?))\)?s?(?=\s|$)",
    re.IGNORECASE,
)
_NUMPY = "np.float64(", ")"


class Role(StrEnum):
    """The quantity that a metric measures, whatever a back-end calls it. Seconds are those of one step.

    `ROLLOUT_ENTROPY`: mean -log p of what the rollout sampled, by its own probabilities; `ENTROPY` is the actor's.
    `PROBABILITY_CORRELATION`: of the probabilities of rollout and actor, token by token.
    `POLICY_KL`: mean log ratio of the probabilities before the update to those of the actor; its sign says nothing.
    `REJECTED_…`, `VETOED_SAMPLES` and `ZEROED_WEIGHTS` are shares that the correction took from the training, and
    `EFFECTIVE_SAMPLE_SIZE` the share that its weights are worth. Other filters: `CLIP_RATIO` and `ABORTED_SAMPLES` are
    shares of the answers, `FILTERED_GROUPS` counts the groups dropped without an advantage, `GENERATED_BATCHES`
    the batches that were generated to make up for them. `ZERO_ADVANTAGE_GROUPS`: the share of groups whose answers all
    got one reward, so that nothing is learned from them. `REFERENCE_KL`: of the actor from the reference model.
    `DEVICE_MEMORY`: the most that a device held, in GiB. `LOGGED_STEP` and `EPOCH`: the step and the epoch that a line
    states beside its own step. `STALENESS`: mean number of updates by which the weights that answered were behind.
    """

    STEP_SECONDS = "step_seconds"
    VALIDATION_SECONDS = "validation_seconds"
    SAVE_SECONDS = "save_seconds"
    SYNC_SECONDS = "sync_seconds"
    TOKENS = "tokens"
    TOKENS_A_SECOND = "tokens_a_second"
    TOKENS_A_SECOND_AND_DEVICE = "tokens_a_second_and_device"
    SCORE = "score"
    ENTROPY = "entropy"
    ROLLOUT_ENTROPY = "rollout_entropy"
    RESPONSE_LENGTH = "response_length"
    CLIP_RATIO = "clip_ratio"
    GRAD_NORM = "grad_norm"
    LEARNING_RATE = "learning_rate"
    POLICY_LOSS = "policy_loss"
    PROBABILITY_GAP = "probability_gap"
    PROBABILITY_CORRELATION = "probability_correlation"
    POLICY_KL = "policy_kl"
    REWARD = "reward"
    HIGHEST_REWARD = "highest_reward"
    LOWEST_REWARD = "lowest_reward"
    HIGHEST_ADVANTAGE = "highest_advantage"
    LOWEST_ADVANTAGE = "lowest_advantage"
    REJECTED_SAMPLES = "rejected_samples"
    REJECTED_TOKENS = "rejected_tokens"
    VETOED_SAMPLES = "vetoed_samples"
    ZEROED_WEIGHTS = "zeroed_weights"
    ABORTED_SAMPLES = "aborted_samples"
    FILTERED_GROUPS = "filtered_groups"
    GENERATED_BATCHES = "generated_batches"
    EFFECTIVE_SAMPLE_SIZE = "effective_sample_size"
    ZERO_ADVANTAGE_GROUPS = "zero_advantage_groups"
    REFERENCE_KL = "reference_kl"
    DEVICE_MEMORY = "device_memory"
    LOGGED_STEP = "logged_step"
    EPOCH = "epoch"
    STALENESS = "staleness"


class StepMetrics(NamedTuple):
    """The metrics of one training step, or of the validation after it."""

    step: int
    values: Mapping[str, float]


class TotalSteps(NamedTuple):
    """The number of steps that the run means to take."""

    steps: int


class DataRows(NamedTuple):
    """The rows of both data sets, in one line."""

    training: int
    validation: int


class DataLength(NamedTuple):
    """The rows of one data set, the training set first. A filtered length replaces that of the same data set."""

    rows: int
    filtered: bool


class LoggedInterval(NamedTuple):
    """At which steps the trainer logs lines that name no step. None: this line of its configuration does not say.

    `training`: every so many steps, `with_first`: and at step 1. `validations`: every so many steps, `before`: and
    before the training.
    """

    training: int | None = None
    with_first: bool | None = None
    validations: int | None = None
    before: bool | None = None


class NextMetrics(NamedTuple):
    """The metrics of the next step of that interval: of the training, of a validation, or at the end of the run."""

    of: Logged
    values: Mapping[str, float]


class Logged(StrEnum):
    """What a line without a step is about."""

    TRAINING = "training"
    VALIDATION = "validation"
    END = "end"


class Resumed(NamedTuple):
    """Training continues from the checkpoint of this step."""

    step: int


LineSays = (
    StepMetrics | Progress | TotalSteps | DataRows | DataLength | Resumed | LoggedFault | LoggedInterval | NextMetrics
)


class Context(NamedTuple):
    """Step and sigma that a process announced for its next line about noise that it added."""

    step: int
    sigma: float
    per_layer: bool = False


class Weights(NamedTuple):
    """The weights that the next noise is added to. `layers`: how many were made clean; None: all that there are."""

    found: str
    layers: int | None = None


NoiseSays = Context | Announcement | Weights | NoiseEvent


@dataclass(frozen=True, slots=True)
class LineForm:
    """One kind of line. A line that holds a needle is read; each needle costs a pass over the log, so few and long."""

    needles: tuple[bytes, ...]
    read: Callable[[str], Iterable[LineSays]]


def _no_words(line: str) -> NoiseSays | None:
    return None


def _no_faults(evidence: Evidence, found: Any) -> Iterable[Any]:
    return ()


def _unknown(settings: Mapping[str, Any]) -> str:
    return ""


def _no_configuration(lines: Iterable[str]) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Configured:
    """What a printed configuration says about its run. `total_steps` is None where it depends on the data.

    `validates_every` so many steps, 0: never; `validates_first`: before the training, too. `sigmas`: first and last
    sigma of the noise that a fork was asked for, and the number of stages; None: no noise with keys of its own.
    `is_whole`: it is all that the trainer composed, so that a run can be checked against it.
    """

    total_steps: int | None
    validates_every: int
    validates_first: bool
    validation_samples: int = 1
    reports_probability_gap: bool = False
    sigmas: tuple[float, float, int] | None = None
    is_whole: bool = False


def _no_settings(command: Sequence[str], recipe: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    return ()


def _no_phases(values: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    return ()


def _plain(configuration: Mapping[str, Any]) -> Iterable[Mode]:
    return ()


def _not_configured(config: Mapping[str, Any]) -> Configured | None:
    return None


@dataclass(frozen=True, slots=True)
class PrecisionSettings:
    """The settings of the precision of weights. Both functions answer in words, "" for unknown."""

    keys: frozenset[str] = frozenset()
    trained_in: Callable[[Mapping[str, Any]], str] = _unknown
    validated_in: Callable[[Mapping[str, Any]], str] = _unknown


@dataclass(frozen=True, slots=True)
class KnownHangs:
    """The places where the back-end may hang without an error message, for the fix of a finding; "" for none."""

    at_start: str = ""
    near_end: str = ""
    at_end: str = ""


@dataclass(frozen=True, slots=True)
class LogGrammar:
    """The grammar of one back-end's log: what it says, and in which words.

    `title`: how people call the back-end. `rules`: to be changed with whatever reads the same bytes otherwise, since
    what was read is kept by it.
    `lines`: the kinds of its lines. `unproven`: in words, that no real log has confirmed how they read;
    `unproven_grep` finds the lines in question.
    `noise`: reads a line that holds one of `noise_needles`, in the wordings of its forks. `noise_faults`: the Charges
    (`rlx.evidence.checks`) that a fork's own lines give away, from the evidence and its Application.
    `core`: how the names of the metrics begin by which a run is judged (`<core><source>/<variable>/<statistic>`), each
    with a slash at its end; one without is a whole name;
    `validation`: the same for all metrics of validations. `metrics`: the names for each role, the usual one first.
    `not_kl`: how names begin that speak of a KL which is not the training's.
    `gap_setting`, `outputs_setting`: the keys that make it log the probability gap, and keep what validations
    answered. `row_limit_setting`, `row_filter_setting`: those by which it trains on fewer rows than the file has.
    `own_reward`: settings that replace its reward function. `graders`: data source -> the rule that it grades it
    by, where rlx replays that (`reading/replayed_graders.py`). `scored_by`: settings by which something else than
    that rule makes the score; "naive", off and absent change nothing. `seed_keys`: the settings that seed its
    training.
    `phases`: from the metrics of a step, its phases in their order with their seconds, in the words of the memory
    estimate; "" for a time of which the order is not known.
    `planned_settings`: from the command and the resolved recipe of a plan, the keys that it sets, with Hydra's prefixes
    and in the order in which they count, and their values; they are checked against the configuration that the program
    composes.
    `modes`: from its configuration, the modes that a run trains in. `traces`: by what it shows settings of a recipe.
    `printed_configuration`: the configuration among the lines of a log's beginning; `configured` reads such a tree.
    """

    title: str
    rules: str
    lines: tuple[LineForm, ...] = ()
    unproven: str = ""
    unproven_grep: str = ""
    noise_needles: tuple[bytes, ...] = ()
    noise: Callable[[str], NoiseSays | None] = _no_words
    noise_faults: Callable[[Evidence, Any], Iterable[Any]] = _no_faults
    core: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    metrics: Mapping[Role, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    not_kl: tuple[str, ...] = ()
    gap_setting: str = ""
    outputs_setting: str = ""
    row_limit_setting: str = ""
    row_filter_setting: str = ""
    own_reward: tuple[str, ...] = ()
    graders: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    scored_by: tuple[str, ...] = ()
    seed_keys: tuple[str, ...] = ()
    precision: PrecisionSettings = PrecisionSettings()
    hangs: KnownHangs = KnownHangs()
    phases: Callable[[Mapping[str, float]], Sequence[tuple[str, float]]] = _no_phases
    planned_settings: Callable[[Sequence[str], Mapping[str, Any]], Iterable[tuple[str, object]]] = _no_settings
    printed_configuration: Callable[[Iterable[str]], Mapping[str, Any]] = _no_configuration
    configured: Callable[[Mapping[str, Any]], Configured | None] = _not_configured
    modes: Callable[[Mapping[str, Any]], Iterable[Mode]] = _plain
    traces: tuple[Trace, ...] = ()


def read_pairs(body: str, separator: str) -> dict[str, float]:
    """Read `name:number` pairs out of a line, in all formats in which Python prints a number; skip other text."""
    values = {}
    for item in body.split(separator):
        key, _, text = item.rpartition(":")
        if text.endswith(_NUMPY[1]) and text.startswith(_NUMPY[0]):
            # Most numbers of newer trainers: raising and matching would take twice the time.
            text = text[len(_NUMPY[0]) : -1]
        try:
            value = float(text)
        except ValueError:
            if (found := _VALUE.match(text.strip())) is None:
                continue
            value = float(found[1])
        if (key := key.strip()) and " " not in key:
            values[key] = value
    return values
