"""The requirements of MindSpeed-RL on its machine: Megatron's weights, packed data, and CPUs for Ray's bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rlx.backends.mindspeed_rl.data import packed_files
from rlx.backends.mindspeed_rl.yaml_sections import LOAD
from rlx.errors import UsageError
from rlx.planning.host_requirements import BackendHost, DataFile, HostFinding, HostRequirements

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

# It waits for a Ray placement group of 8 CPUs for each NPU, without any message.
_CPUS_PER_NPU = 8


def _files(recipe: Recipe) -> Iterator[DataFile]:
    yield DataFile("model", recipe.model.path)
    weights = recipe.overrides.get(LOAD)
    if isinstance(weights, str):
        yield DataFile("mcore", weights)
    yield from (DataFile("packed", path) for path in packed_files(recipe.data.train))


def _weights(wanted: DataFile, facts: Mapping[str, Any]) -> Iterator[HostFinding]:
    label = f"overrides.{LOAD}: {wanted.path}"
    fix = "convert the model with MindSpeed-LLM, for the tp, pp and ep of the recipe"
    if facts["kind"] != "folder":
        yield HostFinding("RLX550", f"{label} is no folder there", fix)
    elif not facts.get("tracker"):
        what = "weights of Hugging Face" if facts.get("weight_files") else "no latest_checkpointed_iteration.txt"
        yield HostFinding("RLX550", f"{label} has {what}, and Megatron cannot load them", fix)


def _packed(wanted: DataFile, facts: Mapping[str, Any]) -> Iterator[HostFinding]:
    if facts["kind"] != "file":
        fix = "rlx data gsm8k --for mindspeed-rl, then cli/preprocess_data.py; data.train is the prefix of six files"
        yield HostFinding("RLX550", f"data.train: {wanted.path} is no file there", fix)


def _cpus(resolved: ResolvedRecipe) -> int:
    from rlx.backends.mindspeed_rl.backend import needed_cpus, settings

    recipe = resolved.recipe
    try:
        return needed_cpus(settings(resolved), recipe.layout.devices_per_node, recipe.algorithm.kind)
    except UsageError:
        return 0  # rlx validate reports the error


def _shortage(cpus: int, wanted: HostRequirements, devices: int) -> Iterator[HostFinding]:
    needed = wanted.cpus or _CPUS_PER_NPU * (wanted.devices or devices)
    if cpus < needed:
        message = f"{cpus} CPUs; MindSpeed-RL asks Ray for {needed} and waits for them without a word"
        fix = "lower rl_config.num_cpus_for_placement_group in the recipe's overrides"
        yield HostFinding("RLX519", message, fix)


HOST = BackendHost(
    name="MindSpeed-RL",
    packages=("mindspeed_rl", "mindspeed"),
    is_numbered=False,  # every branch installs itself as 2.1.0
    starts_ray=True,
    files=_files,
    file_checks={"mcore": _weights, "packed": _packed},
    cpus=_cpus,
    shortage=_shortage,
)
