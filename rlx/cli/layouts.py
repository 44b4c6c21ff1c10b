"""rlx layouts: the ways to split a recipe's model and batch over devices, with memory and communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rlx.preflight.layouts.candidates import Layout, Layouts
    from rlx.preflight.memory import Job
    from rlx.recipe import ResolvedRecipe


def layouts(
    recipe: Annotated[str, typer.Argument(help="Recipe file, name of a recipe that comes with rlx, or - for stdin.")],
    devices: Annotated[int | None, typer.Option(min=1, help="Devices to split over. Default: the recipe's.")] = None,
    memory: Annotated[float | None, typer.Option(min=1, help="GiB of a device. Default for NPUs: 64.")] = None,
    arm: Annotated[str | None, typer.Option(help="Arm. Default: the first.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of text, with every layout.")
    ] = False,
) -> None:
    """List the layouts that divide, with their memory; least communication first.

    Layouts that fit come first. Below them: sizes that do not divide, and why.
    """
    from rlx.cli.frame.output import print_json
    from rlx.cli.text.layouts_text import print_layouts
    from rlx.preflight.layouts.candidates import batch_of
    from rlx.preflight.layouts.candidates import layouts as all_layouts
    from rlx.recipe import load_recipe

    file = load_recipe(recipe, set_ or ())
    resolved = file.resolve(arm or file.arms[0])
    job, dynamic = _job(resolved, devices, memory)
    found = all_layouts(job, batch_of(resolved.recipe, dynamic))
    if as_json:
        print_json(_answer(job, found))
    else:
        print_layouts(resolved.recipe.name, job, found)


def _job(resolved: ResolvedRecipe, devices: int | None, memory: float | None) -> tuple[Job, bool]:
    """The recipe's job on that many devices, and whether its micro batches are filled up by tokens.

    Raises UsageError where model or device are not known, or there are too many devices.
    """
    from dataclasses import replace

    from rlx.errors import UsageError
    from rlx.preflight.layouts.candidates import MOST_DEVICES
    from rlx.preflight.memory import device_of, job_of
    from rlx.preflight.models.architecture_config import known_architecture
    from rlx.preflight.rules.facts import facts_of

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


def _answer(job: Job, found: Layouts) -> dict[str, Any]:
    return {
        "model": job.shape.name,
        "model_confirmed": job.shape.confirmed,
        "devices": job.split.devices,
        "device_gib": job.device.size,
        "capacity_gib": round(job.device.capacity, 2),
        "layouts": [{**_row(layout), "own": layout.job == job} for layout in found.possible],
        "refused": found.refused,
    }


def _row(layout: Layout) -> dict[str, Any]:
    from rlx.cli.text.memory_text import phases_answer

    split, rollout = layout.job.split, layout.job.rollout
    return {
        "verdict": layout.verdict,
        "training": {"tp": split.tp, "pp": split.pp, "cp": split.cp, "ep": split.ep, "dp": split.data},
        "rollout": {"tp": rollout.tp, "ep": rollout.ep},
        "memory_gib": phases_answer(layout.estimate),
        "cached_sequences": layout.estimate.cache.sequences,
        "sent_gib": _rounded(layout.sent),
        "waiting": round(layout.waiting, 3),
    }


def _rounded(sizes: dict[str, float]) -> dict[str, float]:
    return {name: round(size, 2) for name, size in sizes.items()}
