"""What a rule calls an error, verl itself refuses: the recipes of the cases, in the verl that is installed here."""

from __future__ import annotations

from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException

from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.overrides import chosen
from rlx.preflight.rules.facts import Facts
from rlx.recipe import ResolvedRecipe, load_recipe
from tests.backends.conftest import INSTALLED, config_tree
from tests.conftest import CASES

# verl warns about engines that are not installed here.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
STARTUP = {
    "RLX103": r"real_train_batch_size \(500\) must be divisible by minimal possible batch size \(8\)",
    "RLX106": r"train_batch_size \(32\) must be >= actor.ppo_mini_batch_size \(64\)",
    "RLX109": r"You have set both|Please set at least one of",
    "RLX113": r"Invalid loss_agg_mode: mean",
    "RLX115": r"you must enable `use_remove_padding`",
}
# Megatron's configuration classes need Megatron.
FOLDERS = [
    folder
    for folder in sorted((CASES / "preflight").iterdir())
    if folder.name[:6] in STARTUP and "megatron" not in folder.name
]


def resolved(name: str) -> ResolvedRecipe:
    return load_recipe(CASES / "preflight" / name / "recipe.yaml").resolve("main")


def configured(recipe: ResolvedRecipe) -> Any:
    rendering = rendering_of(recipe)
    assert rendering.version == INSTALLED
    with initialize_config_dir(str(config_tree(INSTALLED)), version_base=None):
        # As main_ppo does it; paths of a run are not there yet.
        arguments = [override.argument() for override in chosen(rendering) if not override.key.startswith("hydra")]
        return compose("ppo_trainer", arguments)


def validate(recipe: ResolvedRecipe) -> None:
    from verl.utils.config import validate_config

    uses_reference = recipe.recipe.algorithm.kl is not None
    validate_config(configured(recipe), use_reference_policy=uses_reference, use_critic=False)


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS if "-breaks-" in folder.name])
def test_verl_refuses_what_breaks_a_rule(name: str) -> None:
    # Hydra wraps what a configuration class raises.
    with pytest.raises((AssertionError, ValueError, InstantiationException), match=STARTUP[name[:6]]):
        validate(resolved(name))


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS if "-passes-" in folder.name])
def test_verl_takes_what_keeps_it(name: str) -> None:
    validate(resolved(name))


@pytest.mark.parametrize(
    ("name", "key", "refused"),
    [
        ("RLX104-breaks-micro-batch", "train", True),
        ("RLX104-passes-micro-batch", "train", False),
        ("RLX107-breaks-log-prob", "log_prob", True),
        ("RLX107-passes-log-prob", "log_prob", False),
    ],
)
def test_verls_worker_cuts_the_share_of_a_device(name: str, key: str, refused: bool) -> None:
    """The very function that asserts it in the first step, given as many samples as a device has."""
    import torch
    from tensordict import TensorDict
    from verl.utils import tensordict_utils
    from verl.workers.engine.utils import prepare_micro_batches

    facts = Facts.of(resolved(name))
    assert facts.mini_samples and facts.samples and facts.data_parallel
    share = (facts.mini_samples if key == "train" else facts.samples) // facts.data_parallel
    section = facts.recipe.train.micro_batch_size if key == "train" else facts.recipe.rollout.log_prob_micro_batch_size
    data = TensorDict({"input_ids": torch.zeros(share, 4)}, batch_size=[share])
    tensordict_utils.assign_non_tensor(data, use_dynamic_bsz=False, micro_batch_size_per_gpu=section)
    if not refused:
        assert len(prepare_micro_batches(data)[0]) == share // section
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

    facts = Facts.of(resolved(name))
    assert facts.mini_samples and facts.samples and facts.data_parallel
    share, mini = facts.samples // facts.data_parallel, facts.mini_samples // facts.data_parallel
    data = TensorDict({"input_ids": torch.zeros(share, 4)}, batch_size=[share])
    if not refused:
        assert len(list(make_iterator(data, mini, epochs=1))) == share // mini
        return
    with pytest.raises(AssertionError, match=f"{share} % {mini} != 0"):
        make_iterator(data, mini, epochs=1)
