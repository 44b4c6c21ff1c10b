"""What a rule calls an error, verl itself refuses: the recipes of the cases, in the verl that is installed here."""

from __future__ import annotations

from typing import Any

import pytest
from hydra.errors import InstantiationException

from rlx.planning.rules.facts import facts_of
from tests.conftest import CASES
from tests.planning.verl_configuration import configured, resolved, validate

# verl warns about engines that are not installed here.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
STARTUP = {
    "RLX103": r"real_train_batch_size \(500\) must be divisible by minimal possible batch size \(8\)",
    "RLX106": r"train_batch_size \(32\) must be >= actor.ppo_mini_batch_size \(64\)",
    "RLX109": r"You have set both|Please set at least one of",
    "RLX113": r"Invalid loss_agg_mode: mean",
    "RLX115": r"you must enable `use_remove_padding`",
    "RLX116": r"validation gen temperature should be greater than 0",
    "RLX117": r"ppo_mini_batch_size \(32\) must be divisible by ppo_micro_batch_size \(24\)",
    "RLX205": r"n_gpus \(8\) must be divisible by model_parallel_size \(6\)",
}
# Classes that a worker makes of its section before anything else.
SECTIONS = {
    "RLX118": ("actor.megatron.router_replay", r"Invalid router_replay mode: R4"),
    "RLX204": ("rollout", r"expert_parallel_size must be equal to"),
    "RLX208": ("rollout", r"not implemented pipeline_model_parallel_size > 1"),
    "RLX222": ("rollout", r"moe_tensor_parallel_size is only supported for trtllm"),
    "RLX224": ("actor.megatron", r"dtype float32 not supported"),
}
# Of other versions of verl, of what is refused later, or of Megatron's classes, which need Megatron.
ELSEWHERE = ("-0.7", "-0.8", "only-the-old-key", "indivisible", "passes-split", "RLX103-breaks-megatron", "bypass")
NAMES = [folder.name for folder in sorted((CASES / "preflight").iterdir())]
FOLDERS = [name for name in NAMES if not any(word in name for word in ELSEWHERE) or name.endswith("in-0.9")]


SIZES = {
    "train": "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "log_prob": "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
    "ref": "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
}


def cases(ids: dict[str, Any], kind: str) -> list[str]:
    return [name for name in FOLDERS if name[:6] in ids and f"-{kind}-" in name]


@pytest.mark.parametrize("name", cases(STARTUP, "breaks"))
def test_verl_refuses_what_breaks_a_rule(name: str) -> None:
    # Hydra wraps what a configuration class raises.
    with pytest.raises((AssertionError, ValueError, InstantiationException), match=STARTUP[name[:6]]):
        validate(resolved(name))


@pytest.mark.parametrize("name", cases(STARTUP, "passes"))
def test_verl_takes_what_keeps_it(name: str) -> None:
    validate(resolved(name))


def section(name: str) -> Any:
    """The class of verl that a worker makes of the section which the rule is about."""
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass

    return omega_conf_to_dataclass(
        OmegaConf.select(configured(resolved(name)).actor_rollout_ref, SECTIONS[name[:6]][0])
    )


@pytest.mark.parametrize("name", cases(SECTIONS, "breaks"))
def test_verls_worker_refuses_its_section(name: str) -> None:
    with pytest.raises((AssertionError, ValueError, InstantiationException), match=SECTIONS[name[:6]][1]):
        section(name)


@pytest.mark.parametrize("name", cases(SECTIONS, "passes"))
def test_verls_worker_takes_its_section(name: str) -> None:
    assert section(name)


@pytest.mark.parametrize(
    ("name", "key", "refused"),
    [
        ("RLX104-breaks-micro-batch", "train", True),
        ("RLX104-passes-micro-batch", "train", False),
        ("RLX107-breaks-log-prob", "log_prob", True),
        ("RLX107-passes-log-prob", "log_prob", False),
        ("RLX108-breaks-reference", "ref", True),
        ("RLX108-passes-reference", "ref", False),
    ],
)
def test_verls_worker_cuts_the_share_of_a_device(name: str, key: str, refused: bool) -> None:
    """The very function that asserts it in the first step, given as many samples as a device has."""
    import torch
    from tensordict import TensorDict
    from verl.utils import tensordict_utils
    from verl.workers.engine.utils import prepare_micro_batches

    facts = facts_of(resolved(name))
    assert facts.mini_samples and facts.samples and facts.data_parallel
    share = (facts.mini_samples if key == "train" else facts.samples) // facts.data_parallel
    size = facts.whole(SIZES[key])
    assert size
    data = TensorDict({"input_ids": torch.zeros(share, 4)}, batch_size=[share])
    tensordict_utils.assign_non_tensor(data, use_dynamic_bsz=False, micro_batch_size_per_gpu=size)
    if not refused:
        assert len(prepare_micro_batches(data)[0]) == share // size
        return
    with pytest.raises(AssertionError, match="data size must be divisible by"):
        prepare_micro_batches(data)


@pytest.mark.parametrize(
    ("name", "refused"), [("RLX110-breaks-assertion-of-0.8", True), ("RLX110-passes-padding", False)]
)
def test_verls_mini_batches_must_divide(name: str, refused: bool) -> None:
    """`make_iterator` is the same in 0.8.0 and 0.9.1; 0.9.1 pads before it comes here."""
    import torch
    from tensordict import TensorDict
    from verl.utils.tensordict_utils import make_iterator

    facts = facts_of(resolved(name))
    assert facts.mini_samples and facts.samples and facts.data_parallel
    share, mini = facts.samples // facts.data_parallel, facts.mini_samples // facts.data_parallel
    data = TensorDict({"input_ids": torch.zeros(share, 4)}, batch_size=[share])
    if not refused:
        assert len(list(make_iterator(data, mini, epochs=1))) == share // mini
        return
    with pytest.raises(AssertionError, match=f"{share} % {mini} != 0"):
        make_iterator(data, mini, epochs=1)
