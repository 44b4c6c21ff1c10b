"""rlx layouts: list valid parallel layouts with their memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import RecipeArgument, SetOption
from rlx.cli.frame.output import console, print_json, print_text
from rlx.cli.text.table_text import fitted
from rlx.evidence.verdict import counted
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.planning.layouts import Layouts, ParallelLayout
    from rlx.planning.memory import TrainingSetup

_SHOWN = 20
_LEGEND = (
    "Memory: GiB per device in each phase, from typical to long samples. Too large: cannot fit at all; tight: does",
    "not fit with the longest samples. sent: GiB that a device sends per step, by which layouts that fit are ordered.",
    "waiting: the share of the training in which the devices of a pipeline are idle; it does not affect the order.",
    "cache: how many of the longest samples the KV cache holds. How it is computed: docs/memory.md",
)


def layouts(
    recipe: RecipeArgument,
    devices: Annotated[int | None, typer.Option(min=1, help="Devices to split over. Default: the recipe's.")] = None,
    memory: Annotated[float | None, typer.Option(min=1, help="GiB of a device. Default for NPUs: 64.")] = None,
    arm: Annotated[str | None, typer.Option(help="Arm. Default: the first.")] = None,
    set_: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of text, with every layout.")
    ] = False,
) -> None:
    """List valid parallel layouts with their memory.

    Layouts that fit come first, of them those with the least communication. Below: sizes that do not divide, and why.
    """
    from rlx.api.recipes import layouts as list_layouts

    listed = list_layouts(recipe, devices=devices, memory_gib=memory, arm=arm, sets=set_ or ())
    if as_json:
        print_json(layouts_answer(listed.job, listed.found))
    else:
        print_layouts(listed.recipe, listed.job, listed.found)


def print_layouts(name: str, job: TrainingSetup, candidates: Layouts) -> None:
    print_text(_title(name, job, candidates))
    own = [layout for layout in candidates.possible[_SHOWN:] if layout.job == job]
    _print_table((*candidates.possible[:_SHOWN], *own), job)
    if len(candidates.possible) > _SHOWN:
        print_text(f"… and {len(candidates.possible) - _SHOWN - len(own)} more: --json has them all")
    if candidates.refused:
        print_text("\n".join(("\nDoes not divide:", *(f"  {reason}" for reason in candidates.refused))))
    if candidates.possible:
        print_text("\n".join(("", *_LEGEND)))


def _title(name: str, job: TrainingSetup, candidates: Layouts) -> str:
    shape, device = job.shape, job.device
    fit = sum(layout.verdict == "fits" for layout in candidates.possible)
    doubt = "" if shape.confirmed else " (its shape is not confirmed)"
    assumed = ", assumed" if device.assumed else ""
    return (
        f"{name}: {fit} of {counted(len(candidates.possible), 'layout')} fit {shape.name}{doubt} on "
        f"{job.split.devices} devices of {device.size:g} GiB ({device.capacity:.1f} usable{assumed})"
    )


def _print_table(shown: tuple[ParallelLayout, ...], own: TrainingSetup) -> None:
    if not shown:
        print_text("no layout divides")
        return
    own_words = (layout.verdict + (", the recipe's own" if layout.job == own else "") for layout in shown)
    rows = [(*_cells(layout, _split_names(own)), word) for layout, word in zip(shown, own_words, strict=True)]
    out = console()
    out.print(fitted(Table(_columns(shown[0], _split_names(own), rows)), out.width))


def _split_names(job: TrainingSetup) -> tuple[str, ...]:
    return ("tp", "pp", "cp", "ep") if job.is_megatron else ("cp",)


def _columns(layout: ParallelLayout, split: tuple[str, ...], rows: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns, ranked: idle time is left out first, then what is sent and cached, then the phases."""
    phases = [phase.name for phase in layout.estimate.phases]
    titles = (*split, "dp", "rollout", *phases, "cache", "sent", "waiting", "")
    ranks = {"waiting": 4, "cache": 3, "sent": 2, **dict.fromkeys(phases, 1)}
    return [
        Column(title, cells, ranks.get(title, 0), flows=not title, right=title not in ("rollout", ""))
        for title, cells in zip(titles, zip(*rows, strict=True), strict=True)
    ]


def _cells(layout: ParallelLayout, columns: tuple[str, ...]) -> Iterator[str]:
    from rlx.cli.text.memory_text import range_text

    split, rollout = layout.job.split, layout.job.rollout
    yield from (str(getattr(split, column)) for column in columns)
    yield str(split.data)
    yield f"tp {rollout.tp}" + (f" ep {rollout.ep}" if layout.job.shape.experts else "")
    yield from (range_text(phase) for phase in layout.estimate.phases)
    yield str(layout.estimate.cache.sequences)
    yield f"{layout.total_sent:.1f}"
    yield f"{layout.waiting:.0%}" if layout.waiting else ""


def layouts_answer(job: TrainingSetup, candidates: Layouts) -> dict[str, Any]:
    """Return all layouts, for --json."""
    return {
        "model": job.shape.name,
        "model_confirmed": job.shape.confirmed,
        "devices": job.split.devices,
        "device_gib": job.device.size,
        "capacity_gib": round(job.device.capacity, 2),
        "layouts": [{**_layout_answer(layout), "own": layout.job == job} for layout in candidates.possible],
        "refused": candidates.refused,
    }


def _layout_answer(layout: ParallelLayout) -> dict[str, Any]:
    from rlx.cli.text.memory_text import phases_answer

    split, rollout = layout.job.split, layout.job.rollout
    return {
        "verdict": layout.verdict,
        "training": {"tp": split.tp, "pp": split.pp, "cp": split.cp, "ep": split.ep, "dp": split.data},
        "rollout": {"tp": rollout.tp, "ep": rollout.ep},
        "memory_gib": phases_answer(layout.estimate),
        "cached_sequences": layout.estimate.cache.sequences,
        "sent_gib": {name: round(size, 2) for name, size in layout.sent.items()},
        "waiting": round(layout.waiting, 3),
    }
