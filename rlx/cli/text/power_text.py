"""The power of a recipe's design as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rlx.compare.registered_design import Claim
from rlx.table import Table, table_of_rows

if TYPE_CHECKING:
    from rlx.api.power import ItemsPower, RecipePower, SeedsPower, Spread

_NO_SPREAD = (
    "seeds: nobody knows how far they spread: no two finished seeds of one arm in the index have this metric, model, "
    "data, reward and evaluation\n  fix: --spread SD assumes one; two or three seeds of one arm measure it"
)


def power_text(found: RecipePower) -> str:
    """The whole answer of `rlx power`: items, spread, a table of seeds, and sentences on effect and equivalence."""
    return "\n".join(_lines(found))


def _lines(found: RecipePower) -> Iterator[str]:
    from rlx.cli.text.table_text import plain_table_lines

    yield from _head(found)
    yield ""
    yield _items_line(found.items) if found.items else "items: their number is not known (data.val_rows)"
    if found.spread is None:
        yield _NO_SPREAD
        return
    yield f"seeds: {_spread_line(found.spread)}"
    if found.items and found.spread.observed is None and found.spread.sd < found.items.scatter:
        yield "  which is less than chance moves a run, unless the seeds answer most items alike"
    yield from ["", *plain_table_lines(_table(found)), ""]
    if found.effect is not None:
        yield _needed_line(found)
    yield _equivalence_line(found, found.spread)


def _head(found: RecipePower) -> Iterator[str]:
    """The design, whose it is, and what the options change of it."""
    yield f"{found.recipe}: {_design_words(found)}"
    if found.registered_seeds is not None:
        yield f"  the recipe's experiment has {found.registered_seeds} seeds an arm"
    yield from (f"  asked by option: {departure}" for departure in found.departures)


def _design_words(found: RecipePower) -> str:
    design, arms = found.design, found.treatments
    margin = f" at a margin of {design.margin:g} points" if design.margin is not None else ""
    corrected = f" ({design.several.value.capitalize()})" if arms > 1 else ""
    return f"{design.claim.value}{margin}, {arms} treatment{'s' if arms > 1 else ''}{corrected} against one control"


def _items_line(items: ItemsPower) -> str:
    moved = f"Chance alone moves one run by {items.scatter:.2g} points (standard deviation)"
    return (
        f"items: {items.items}, at {100 * items.share:.3g} % right. {moved};\n"
        f"  two checkpoints must differ by {items.visible:.2g} points to be told apart with 80 % "
        "power, by less where their outputs per item are kept"
    )


def _spread_line(spread: Spread) -> str:
    if spread.observed is None:
        return f"a standard deviation of {spread.sd:.2g} points between them, assumed (--spread)"
    of = "".join(f"\n    {arm.arm}: {', '.join(arm.run_ids)}" for arm in spread.arms)
    return (
        f"a standard deviation of {spread.sd:.2g} points between them, the upper 80 % bound of the "
        f"{spread.observed:.2g} that earlier runs show\n  with {spread.df} degrees of freedom:{of}"
    )


def _table(found: RecipePower) -> Table:
    heads = ["seeds an arm", _visible_head(found), "equivalent within"]
    heads += [f"power for {_signed(found.effect)}"] if found.effect is not None else []
    heads += ["device hours"] if any(row.device_hours is not None for row in found.seeds) else []
    return table_of_rows(heads, [[str(row.seeds), *_cells(row)] for row in found.seeds], right=True)


def _visible_head(found: RecipePower) -> str:
    return "seen with 80 % power" if found.design.claim is Claim.SUPERIORITY else "margin with 80 % power"


def _cells(row: SeedsPower) -> list[str]:
    cells = [f"{row.visible:.2g} points", f"{row.equivalent_within:.2g} points"]
    cells += [f"{row.power:.0%}".replace("%", " %")] if row.power is not None else []
    return cells + ([f"{row.device_hours:.3g}"] if row.device_hours is not None else [])


def _signed(effect: float) -> str:
    return f"{effect:+g}" if effect else "0"


def _needed_line(found: RecipePower) -> str:
    effect = f"a true difference of {_signed(found.effect)} points" if found.effect else "no true difference"
    if found.seeds_needed is None:
        return f"{effect}: 1000 seeds an arm do not show the claim with 80 % power"
    return f"{effect}: {found.seeds_needed} seeds an arm show the claim with 80 % power"


def _equivalence_line(found: RecipePower, spread: Spread) -> str:
    row = next((each for each in found.seeds if each.seeds >= 5), found.seeds[-1])
    return (
        f"equivalence is expensive: {row.seeds} seeds an arm show it with 80 % power only within "
        f"{row.equivalent_within:.2g} points, {row.equivalent_within / spread.sd:.2g} times the spread, and only if "
        "nothing differs at all"
    )


def planned_power_lines(found: RecipePower) -> Iterator[str]:
    """What a planned experiment can see, by which spread, and what it costs."""
    if found.spread is None:
        yield "nobody knows how far seeds spread, nor how many items there are: rlx power RECIPE --spread SD assumes it"
        return
    row = found.seeds[0]
    yield f"{row.seeds} seeds an arm: {_planned_words(found, row)}"
    yield _planned_spread(found.spread, found.items)
    if found.items:
        yield f"by items alone two checkpoints must differ by {found.items.visible:.2g} points to be told apart"
    if row.device_hours is not None:
        yield f"{row.device_hours:.3g} device hours in all"
    if found.design.claim is Claim.EQUIVALENCE:
        yield _equivalence_line(found, found.spread)


def _planned_words(found: RecipePower, row: SeedsPower) -> str:
    claim, margin = found.design.claim, found.design.margin
    if margin is None or row.power is None:
        return f"a true difference of {row.visible:.2g} points is seen with 80 % power"
    power = f"{row.power:.0%}".replace("%", " %")
    return (
        f"{claim.value} at a margin of {margin:g} points is shown with {power} power where nothing differs, "
        f"at {row.visible:.2g} points with 80 %"
    )


def _planned_spread(spread: Spread, items: ItemsPower | None) -> str:
    if spread.observed is None:
        of = f" of {items.items} items" if items else ""
        return (
            f"by an assumed spread of {spread.sd:.2g} points between seeds, as far as chance alone moves one run{of}: "
            "no earlier seeds are here to tell; rlx power RECIPE --spread SD assumes another"
        )
    runs = sum(len(arm.run_ids) for arm in spread.arms)
    of = ", ".join(f"{arm.name} {arm.arm}" for arm in spread.arms)
    return (
        f"by a spread of {spread.sd:.2g} points between seeds, the upper 80 % bound of the {spread.observed:.2g} "
        f"in {runs} earlier runs ({of})"
    )


def power_answer(found: RecipePower) -> dict[str, Any]:
    """The same for --json, in points and device hours."""
    return {field.name: getattr(found, field.name) for field in fields(found)}
