"""Define the recipe, version 1, after `extends`, arms and `--set` have been merged.

Units are in the field descriptions, which `rlx schema` gives to editors. Back-ends that count in other units
convert; nothing here is rounded or guessed.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Strict,
    Tag,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rlx.backends.registry import kinds
from rlx.recipe.fields import (
    Cause,
    FindingId,
    HostPath,
    LoraTargets,
    ModelPath,
    Name,
    NoiseFactor,
    NoiseTargets,
    Numbers,
    OverrideKey,
    Positive,
    Text,
    Texts,
    Threshold,
    TopK,
    Variable,
    Variables,
    refuse,
)


class Section(BaseModel):
    """Strict: `"128"` is no number, `1` is no truth value, an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


def _known_kind(value: object) -> str:
    """Refuses a kind without a row in the registry, in the words that pydantic has for a wrong choice."""
    if isinstance(value, str) and value in kinds():
        return value
    *most, last = map(repr, kinds())
    expected = f"{', '.join(most)} or {last}" if most else last
    raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})


def _kinds_schema(schema: dict[str, Any]) -> None:
    schema |= {"enum": list(kinds()), "type": "string"}


Kind = Annotated[str, PlainValidator(_known_kind), Field(json_schema_extra=_kinds_schema)]


DECLARED = "declared"
"""The trainer of which rlx knows nothing but what the recipe says."""


class Totals(Section):
    """What a run of another program will show, as its author states it: rlx cannot count it."""

    steps: Positive = Field(description="Training steps, counted from 1")
    validations: Annotated[tuple[int, ...], Strict(False)] = Field(
        description="Steps that are validated, in order; 0: before training"
    )

    @model_validator(mode="after")
    def _in_order_and_within(self) -> Totals:
        steps = self.validations
        if list(steps) != sorted(set(steps)) or (steps and not 0 <= steps[0] <= steps[-1] <= self.steps):
            raise refuse(
                f"must be steps from 0 to {self.steps}, each once and in order", key="backend.totals.validations"
            )
        return self


class Backend(Section):
    """The training framework on the host."""

    kind: Kind
    version: Text = Field(description='Version installed on the host, as text: "0.7.1"')
    engine: Literal["fsdp", "fsdp2", "megatron"] = "fsdp"
    workdir: HostPath | None = Field(
        None, description="Folder on the host in which training starts; null: the run directory"
    )
    trainer: Text | None = Field(
        None,
        description="Trainer, as the back-end calls it, or declared for a program that it does not know, with totals; "
        "null: that of the program",
    )
    totals: Totals | None = Field(None, description="What the run will show, with trainer: declared; null: rlx counts")
    entrypoint: Text | None = Field(None, description="Python module that trains; null: that of the trainer")
    config_name: Text | None = Field(None, description="Hydra configuration to start from; null: the back-end's own")
    python: Text = Field("python3", description="Interpreter on the host")
    key_source: Text | None = Field(
        None,
        description="Local file with the key list of a fork, relative to the file that names it; null: rlx's own list",
    )

    @model_validator(mode="after")
    def _totals_of_a_declared_trainer(self) -> Backend:
        if self.trainer == DECLARED and self.totals is None:
            raise refuse("trainer: declared needs them: {steps: 400, validations: [0, 200, 400]}", key="backend.totals")
        if self.trainer != DECLARED and self.totals is not None:
            raise refuse("of any other trainer rlx counts them: remove it, or write declared", key="backend.totals")
        return self


class Lora(Section):
    """Low-rank adapters instead of full training."""

    rank: Positive
    alpha: float = Field(gt=0)
    targets: LoraTargets = Field("all-linear", description="all-linear, or a list of module names")


class Model(Section):
    """The model that is trained."""

    path: ModelPath = Field(description="Folder of the model on the host, or its name on the Hugging Face hub")
    arch: Text | None = Field(
        None, description="Architecture, such as qwen2.5-1.5b; null: config.json is read on the host"
    )
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    lora: Lora | None = None

    @field_validator("arch")
    @classmethod
    def _short_architecture(cls, arch: str | None) -> str | None:
        """`Qwen/Qwen2.5-1.5B-Instruct` is `qwen2.5-1.5b`: the weights differ, the architecture does not."""
        if arch is None:
            return None
        return arch.rsplit("/", 1)[-1].lower().removesuffix("-instruct").removesuffix("-chat")


class Data(Section):
    """The data on the host. The log is checked against the row counts."""

    train: HostPath = Field(description="Training data on the host")
    val: HostPath = Field(description="Validation data on the host")
    train_rows: Positive | None = Field(None, description="Rows of the training data; null: not known beforehand")
    val_rows: Positive | None = Field(None, description="Rows of the validation data; null: not known beforehand")
    prompt_key: Text = "prompt"
    max_prompt_tokens: Positive = Field(description="Longest prompt, in tokens")
    max_response_tokens: Positive = Field(description="Longest response, in tokens")


class FunctionReward(Section):
    """A reward function in a local Python file, which travels with the run."""

    path: Text = Field(description="Local Python file, relative to the file that names it")
    function: Text = "compute_score"
    kwargs: dict[str, JsonValue] = {}


class VerifierReward(Section):
    """Named verifiers of the back-end, summed with weights."""

    verifiers: Texts = Field(min_length=1)
    weights: Numbers | None = Field(None, description="One a verifier; null: all 1")

    @model_validator(mode="after")
    def _one_weight_each(self) -> VerifierReward:
        if self.weights is not None and len(self.weights) != len(self.verifiers):
            raise refuse(f"{len(self.verifiers)} verifiers but {len(self.weights)} weights", key="reward.weights")
        return self


def _reward_form(value: Any) -> str:
    if isinstance(value, str):
        return "<name>"
    verifiers = isinstance(value, VerifierReward) or (isinstance(value, dict) and "verifiers" in value)
    return "<verifiers>" if verifiers else "<function>"


# No key resembles the tags, so that they can be taken out of the place of an error again.
Reward = Annotated[
    Annotated[Text, Tag("<name>")]
    | Annotated[FunctionReward, Tag("<function>")]
    | Annotated[VerifierReward, Tag("<verifiers>")],
    Discriminator(_reward_form),
]


def _grading_form(value: Any) -> str:
    return "<name>" if isinstance(value, str) else "<function>"


Grading = Annotated[
    Annotated[Text, Tag("<name>")] | Annotated[FunctionReward, Tag("<function>")], Discriminator(_grading_form)
]


class Kl(Section):
    """How far the policy may drift from the reference model."""

    place: Literal["loss", "reward"] = Field("loss", description="Term of the loss, or subtracted from the reward")
    coef: float = Field(ge=0)
    estimator: Literal["kl", "abs", "mse", "low_var_kl"] = "low_var_kl"


class Correction(Section):
    """How training treats samples to which the rollout gave other probabilities than the actor does."""

    weights: Literal["token", "sequence"] | None = Field(
        None, description="Importance weights, one a token or one a sequence; null: none"
    )
    weights_threshold: Threshold = Field(
        2.0, description='Larger weights are cut to it; "LOW_HIGH": weights outside count as 0'
    )
    rejection: Text | None = Field(
        None, description="Kind of rejection, as this version of the back-end calls it, such as seq_mean_k1; null: none"
    )
    rejection_threshold: Threshold | None = Field(
        None, description='What is kept: up to this number, or "LOW_HIGH"; several kinds: one each, with commas'
    )
    bypass: bool = Field(
        False, description="true: the rollout's probabilities are the old ones, and the actor computes none"
    )

    @model_validator(mode="after")
    def _complete(self) -> Correction:
        place = "algorithm.correction"
        if self.rejection is not None and self.rejection_threshold is None:
            raise refuse(f"rejection {self.rejection} needs one", key=f"{place}.rejection_threshold")
        if self.rejection is None and self.rejection_threshold is not None:
            raise refuse("there is no rejection that it could apply to", key=f"{place}.rejection_threshold")
        if self.weights is None and self.weights_threshold != type(self).model_fields["weights_threshold"].default:
            raise refuse("there are no weights that it could apply to", key=f"{place}.weights_threshold")
        if self.bypass and self.weights is not None:
            raise refuse("with bypass the clipped ratio is the weight already: write null", key=f"{place}.weights")
        return self


class Algorithm(Section):
    kind: Literal["grpo", "dapo", "ppo", "rloo", "reinforce_plus_plus"] = "grpo"
    kl: Kl | None = Field(None, description="null: no KL term and no reference model")
    correction: Correction | None = Field(None, description="null: rlx asks for none")


class Train(Section):
    """The optimisation."""

    batch_size: Positive = Field(description="Prompts a step")
    mini_batch_size: Positive = Field(description="Prompts an optimiser update")
    micro_batch_size: Positive = Field(description="Samples a device and forward pass")
    epochs: Positive = Field(1, description="Passes over the training data")
    steps: Positive | None = Field(None, description="Total steps; overrides epochs")
    lr: float = Field(gt=0, description="Learning rate")
    save_every: Positive | None = Field(None, description="Steps between checkpoints; null: none")


class Rollout(Section):
    """The generation of samples."""

    engine: Literal["vllm", "sglang", "cpu", "transformers"] = Field(
        "vllm", description="cpu: rlx's own, for layout.device cpu; transformers: the trained model's own generate"
    )
    n: Positive = Field(description="Samples a prompt")
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: TopK = Field(-1, description="-1: all tokens")
    tp: Positive = Field(1, description="Tensor parallel size of the generation")
    ep: Positive = Field(1, description="Expert parallel size of the generation")
    memory_fraction: float = Field(0.5, gt=0, le=1, description="Share of device memory for the generation")
    enforce_eager: bool = True
    log_prob_micro_batch_size: Positive = Field(description="Samples a device and log-probability pass")
    deterministic: bool = Field(False, description="A seed for each request: answers do not depend on their order")


class Layout(Section):
    """The devices of one run."""

    device: Literal["npu", "cuda", "cpu"]
    nodes: Positive = 1
    devices_per_node: Positive = Field(1, description="Devices of each node")
    tp: Positive = Field(1, description="Tensor parallel size of the training")
    pp: Positive = Field(1, description="Pipeline parallel size")
    ep: Positive = Field(1, description="Expert parallel size")
    cp: Positive = Field(1, description="Context parallel size")
    pools: dict[Text, Positive] | None = Field(None, description="Devices by role; null: all roles share all devices")


class MeasuredTarget(Section):
    """What the noise is to reach in the run itself; one of the two."""

    gap: float | None = Field(
        None, gt=0, description="Mean distance between the probabilities of rollout and actor, 0 to 1"
    )
    entropy: float | None = Field(None, gt=0, description="Mean -log p of what the rollout sampled, in nats a token")

    @model_validator(mode="after")
    def _one(self) -> MeasuredTarget:
        if (self.gap is None) == (self.entropy is None):
            raise refuse("sigma follows one measurement: gap or entropy", key="aqn.adaptive.target")
        return self


class AdaptiveNoise(Section):
    """Sigma that is made larger while a measurement is below its target, and else smaller, step by step."""

    target: MeasuredTarget
    gain: float = Field(0.1, gt=0, le=1, description="Sigma times 1 + gain, or divided by that, after each noisy step")
    sigma_min: float = Field(gt=0, description="Sigma never falls below it")
    sigma_max: float = Field(gt=0, description="Sigma never rises above it")


class Aqn(Section):
    """Adaptive quantisation noise on the weights that generate: free of noise first, then falling."""

    sigma_start: float = Field(gt=0, description="Standard deviation of the first noisy stage")
    sigma_end: float = Field(gt=0, description="Standard deviation of the last stage")
    stages: int = Field(ge=3, le=10_000, description="Stages of the run, the first one free of noise")
    schedule: Literal["geometric", "linear", "constant", "adaptive"] = Field(
        "geometric",
        description="From sigma_start to sigma_end in equal ratios, in equal steps, not at all, or from sigma_start on "
        "after what the run measures",
    )
    adaptive: AdaptiveNoise | None = Field(None, description="What schedule: adaptive follows; null: nothing")
    perturbations: Positive = Field(
        1, description="Draws of noise a step: each group of answers is generated under so many, in equal parts"
    )
    per_epoch: bool = Field(
        False, description="true: the stages run through in every epoch, and each epoch goes its share of the way"
    )
    layer_types: Annotated[tuple[Literal["rmsnorm", "linear"], ...], Strict(False)] = Field(("rmsnorm",), min_length=1)
    targets: NoiseTargets = Field("auto", description="auto, or a list of patterns of module names")
    exclude: Texts = Field((), description="Patterns of module names that stay free of noise")
    multipliers: dict[Text, NoiseFactor] = Field(
        {}, description="Pattern of module names -> factor on sigma there; all that match are multiplied"
    )
    provider: Literal["payload", "builtin"] = Field(
        "payload",
        description="payload: rlx brings the noise along; builtin: the fork's own trainer.noise_injection keys",
    )
    min_trained_share: float = Field(
        0.8,
        gt=0,
        le=1,
        description="Least share of the noisy samples that a rejection must leave to the training, beyond what it "
        "takes of clean ones; below it the run is unverified",
    )

    @model_validator(mode="after")
    def _falling(self) -> Aqn:
        if self.sigma_end > self.sigma_start:
            raise refuse(f"must not exceed sigma_start ({self.sigma_start:g}): the noise falls", key="aqn.sigma_end")
        if self.schedule in ("constant", "adaptive") and self.sigma_end != self.sigma_start:
            raise refuse(
                f"{self.schedule} noise has one sigma: write {self.sigma_start:g} here too", key="aqn.sigma_end"
            )
        return self

    @model_validator(mode="after")
    def _adaptive_in_full(self) -> Aqn:
        follows = self.adaptive
        if (follows is None) == (self.schedule == "adaptive"):
            raise refuse("schedule: adaptive and this section go together", key="aqn.adaptive")
        if follows is None:
            return self
        if self.per_epoch:
            raise refuse("sigma that follows a measurement has no stages but the first", key="aqn.per_epoch")
        if not follows.sigma_min <= self.sigma_start <= follows.sigma_max:
            raise refuse(
                f"must be between sigma_min ({follows.sigma_min:g}) and sigma_max ({follows.sigma_max:g})",
                key="aqn.sigma_start",
            )
        return self

    @model_validator(mode="after")
    def _known_to_the_fork(self) -> Aqn:
        """Refuse what the fork ignores: its epoch-aware mode adds nothing, and its factors never reach the rollout."""
        if self.provider == "builtin":
            for key in ("schedule", "adaptive", "perturbations", "per_epoch", "multipliers"):
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise refuse("the fork's own noise does not have this; use provider: payload", key=f"aqn.{key}")
        return self


class Post(Section):
    """One evaluation of the last checkpoint, after the training and separate from it: the same for every back-end."""

    rows: HostPath = Field(description="Held-out rows on the host: a parquet or jsonl file in the form of data.val")
    row_count: Positive | None = Field(None, description="Rows of that file; null: not known beforehand")
    n: Positive = Field(1, description="Samples a row")
    temperature: float = Field(0.0, ge=0, description="0: greedy")
    engine: Literal["vllm", "transformers"] | None = Field(
        None, description="What generates; null: transformers on a CPU, else vllm"
    )
    batch_size: Positive = Field(64, description="Samples that transformers generates at once; vllm decides itself")
    reward: Grading | None = Field(
        None, description="gsm8k (rlx's own), or a function in a local file; null: the recipe's reward"
    )
    convert: HostPath | None = Field(
        None,
        description="Program on the host, called with a checkpoint and an empty folder, which it fills with the model "
        "in Hugging Face's form; null: the back-end's own converter",
    )


class Eval(Section):
    """The validations during training, and the evaluation after it."""

    every: Positive | None = Field(None, description="Steps between validations; null: never")
    before_train: bool = True
    metric: Text = Field("auto", description="auto: the val-core metric that the log shows")
    n: Positive = Field(1, description="Samples a validation item")
    temperature: float = Field(0.0, ge=0)
    noise: bool = Field(False, description="true: a fork injects noise in validation too, declared as a condition")
    post: Post | None = Field(None, description="null: no evaluation after the training")

    @model_validator(mode="after")
    def _one_result(self) -> Eval:
        if self.post is not None and self.metric != "auto":
            raise refuse("with eval.post the result is what that measures: remove it", key="eval.metric")
        return self


class MeanOfLast(Section):
    """A value that is the mean of several validations, the last ones."""

    mean_of_last: Positive = Field(description="Validations at the end, whose mean counts")


def _check_moment(value: Any) -> Any:
    if value not in ("last", "auc") and not isinstance(value, (dict, MeanOfLast)):
        raise refuse("must be last, auc, or {mean_of_last: 3} for the mean of so many validations")
    return value


def _moment_form(value: Any) -> str:
    return "<word>" if isinstance(value, str) else "<mean>"


Moment = Annotated[
    Annotated[Literal["last", "auc"], Tag("<word>")] | Annotated[MeanOfLast, Tag("<mean>")],
    Discriminator(_moment_form),
    BeforeValidator(_check_moment),
]


class Primary(Section):
    """The one value of a run that answers the question."""

    metric: Text = Field(description="Full name of the metric, as the log has it")
    also: Texts = Field(
        (), description="Further benchmarks, by metric: each is answered, all corrected together for being several"
    )
    at: Moment = Field(
        "last",
        description="last: its value at the last step; mean_of_last: that of so many validations; auc: the area under "
        "its curve, over the steps",
    )


class Experiment(Section):
    """One question about the arms of a recipe, written down before the first step of the runs that answer it."""

    question: Text = Field(description="In a sentence, as a reader would ask it")
    primary: Primary
    test: Literal["superiority", "non-inferiority", "equivalence"] = Field(
        description="superiority: the arms differ; non-inferiority: the treatment is not worse by the margin; "
        "equivalence: they differ by less than the margin"
    )
    margin: float | None = Field(
        None, gt=0, description="In points for shares (2.0: 0.80 against 0.82), else in units of the metric"
    )
    seeds: int = Field(ge=2, le=1000, description="Runs of each arm, with as many seeds from the recipe's own on")
    spare_seeds: int = Field(
        0, ge=0, le=1000, description="Further seeds, in order in place of runs that their machine ended"
    )
    several: Literal["dunnett", "holm"] = Field("dunnett", description="How several treatments share the error rate")
    pairing: Literal["none", "block"] = Field("none", description="block: runs of one seed are pairs; none: not")
    secondary: Texts = Field((), description="Names or patterns of metrics that are shown, and decide nothing; or auc")
    kind: Literal["treatment", "systems"] = Field(
        "treatment",
        description="treatment: what the arms change is credited; systems: whole systems, such as two models, whose "
        "every difference is listed and none credited; the evaluation must be equal",
    )

    @property
    def is_of_systems(self) -> bool:
        """Return whether whole systems are compared."""
        return self.kind == "systems"

    @model_validator(mode="after")
    def _margin_where_it_means_something(self) -> Experiment:
        if self.test == "superiority" and self.margin is not None:
            raise refuse("superiority asks about any difference: remove it", key="experiment.margin")
        if self.test != "superiority" and self.margin is None:
            raise refuse(f"{self.test} needs one: the difference that would be too much", key="experiment.margin")
        return self


class Retry(Section):
    """Further attempts of a run that its machine ended. The command that waits for the run starts them."""

    times: int = Field(ge=1, le=20, description="Further attempts at most")
    on: Annotated[tuple[Cause, ...], Strict(False)] = Field(
        ("lost",), min_length=1, description="lost, and ids of causes in the machine, such as RLX805"
    )
    from_checkpoint: bool = Field(False, description="true: from the last whole checkpoint; false: anew, from step 0")


class Track(Section):
    """Trackers that the trainer logs to while it trains, beside the record by which rlx judges."""

    to: Annotated[
        tuple[Literal["tensorboard", "wandb", "swanlab", "mlflow", "trackio"], ...],
        Strict(False),
    ] = Field(min_length=1, description="A run goes on without one that fails")
    project: Name | None = Field(None, description="null: the recipe's name")
    mode: Literal["offline", "online"] = Field(
        "offline",
        description="offline: into the run directory, and nothing is sent; online: also sent, with a login in secrets",
    )


class Recipe(Section):
    """One arm of an experiment, complete."""

    version: Literal[1] = Field(description="Version of this schema")
    name: Name
    backend: Backend
    model: Model
    data: Data
    reward: Reward = Field(description="Name of a reward the back-end knows, a function, or verifiers")
    algorithm: Algorithm = Algorithm()
    train: Train
    rollout: Rollout
    layout: Layout
    aqn: Aqn | None = Field(None, description="null: no noise")
    eval: Eval = Eval()
    retry: Retry | None = Field(None, description="null: no further attempt but by rlx retry")
    track: Track | None = Field(None, description="null: no tracker; rlx export writes for one afterwards")
    env: dict[Variable, str] = Field({}, description="Environment of the training; no secrets")
    secrets: Variables = Field((), description="Names of secret variables; a recipe never contains the values")
    seed: int = Field(1, ge=0, le=2**31 - 1)
    waive: dict[FindingId, Text] = Field({}, description="Id of a finding -> why it is accepted; results show both")
    overrides: dict[OverrideKey, JsonValue] = Field({}, description="Keys of the back-end, passed on verbatim")

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        if self.rollout.engine == "cpu" and self.layout.device != "cpu":
            raise refuse(f"cpu needs layout.device cpu, found {self.layout.device}", key="rollout.engine")
        if both := sorted(set(self.secrets) & self.env.keys()):
            raise refuse(f"{both[0]} is in env as well; keep one", key="secrets")
        return self
