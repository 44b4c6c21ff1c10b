"""List the ways to split a recipe's model and batch over devices, with memory and communication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.recipes import Recipe
    from rlx.planning.layouts import Layouts
    from rlx.planning.memory import TrainingSetup
    from rlx.recipe import ResolvedRecipe


@dataclass(frozen=True, slots=True)
class RecipeLayouts:
    """`job` is the split of the recipe itself; `found` has those that are `possible`, best first, and the `refused`."""

    recipe: str
    job: TrainingSetup
    found: Layouts


def layouts(
    recipe: Recipe,
    *,
    devices: int | None = None,
    memory_gib: float | None = None,
    arm: str | None = None,
    sets: Sequence[str] = (),
) -> RecipeLayouts:
    """List the layouts that divide, with the memory of each phase in GiB; those that fit first, then by communication.

    `devices` to split over are the recipe's by default, `memory_gib` that of one device (64 for NPUs), `arm` the
    first. Raises UsageError where model or device are not known, or there are too many devices.
    """
    from rlx.api.recipes import recipe_file
    from rlx.planning.layouts import batch_of
    from rlx.planning.layouts import layouts as all_layouts

    file = recipe_file(recipe, sets)
    resolved = file.resolve(arm or file.arms[0])
    job, dynamic = _job(resolved, devices, memory_gib)
    return RecipeLayouts(resolved.recipe.name, job, all_layouts(job, batch_of(resolved.recipe, dynamic)))


def _job(resolved: ResolvedRecipe, devices: int | None, memory: float | None) -> tuple[TrainingSetup, bool]:
    """The recipe's job on that many devices, and whether its micro batches are filled up by tokens."""
    from dataclasses import replace

    from rlx.errors import UsageError
    from rlx.planning.layouts import MOST_DEVICES
    from rlx.planning.memory import device_of, job_of
    from rlx.planning.models.architecture_config import known_architecture
    from rlx.planning.rules.facts import facts_of

    recipe = resolved.recipe
    shape, device = known_architecture(recipe), device_of(recipe, memory)
    if recipe.layout.device == "cpu":
        raise UsageError("layout.device cpu: there is nothing to split", "name a recipe for npu or cuda")
    if shape is None:
        raise UsageError(f"model.path: nothing is known of {recipe.model.path}", "name a similar model in model.arch")
    if device is None:
        raise UsageError(f"the memory of a {recipe.layout.device} device is not known", "say it: --memory 80")
    facts = facts_of(resolved)
    job = job_of(recipe, facts.settings, shape, device)
    count = devices or job.split.devices
    if count > MOST_DEVICES:
        raise UsageError(f"{count} devices: layouts are listed for {MOST_DEVICES} at most", "use --devices")
    whole = count if job.fsdp_size == job.split.devices else min(job.fsdp_size, count)
    job = replace(job, split=replace(job.split, devices=count), fsdp_size=whole)
    return job, not facts.fixed_micro_batches
