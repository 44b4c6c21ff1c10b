"""Say before a launch what its seeds and items could show, from the spread of earlier runs or an assumed one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlx.api.telling import unheard
from rlx.errors import UsageError
from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.api.earlier_runs import EarlierArm
    from rlx.api.recipes import Recipe
    from rlx.api.telling import Tell
    from rlx.compare.registered_design import Claim, Correction, Design
    from rlx.model import Registration
    from rlx.recipe import RecipeFile

SEEDS = (2, 3, 5, 8, 10)
_SHARE = 0.5
_LOW = 0.5


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation between seeds of one arm, in points, that the power is computed with.

    `observed` and `df` are those of the earlier `arms`, whose upper 80 % bound `sd` is; None and 0 where it was given.
    """

    sd: float
    observed: float | None = None
    df: int = 0
    arms: tuple[EarlierArm, ...] = ()


@dataclass(frozen=True, slots=True)
class SeedsPower:
    """What so many seeds an arm show. `power` is that for the effect, None where none was named.

    `visible`: the difference (superiority) or the margin (with no true difference) that is shown with 80 % power, in
    points; `equivalent_within`: the margin that equivalence shows so. `device_hours`: of all runs, None where nobody
    knows how long a step takes.
    """

    seeds: int
    power: float | None
    visible: float
    equivalent_within: float
    device_hours: float | None


@dataclass(frozen=True, slots=True)
class ItemsPower:
    """What the validation items show of one run an arm, in points. `share`: the accuracy it is computed for.

    `scatter`: the standard deviation of one run's value by its items alone. `visible`: the difference of two
    checkpoints that is seen with 80 % power without outputs per item; with them it is smaller.
    """

    items: int
    share: float
    scatter: float
    visible: float


@dataclass(frozen=True, slots=True)
class RecipePower:
    """What a recipe's design can see. `effect` in points; `seeds_needed` an arm for 80 % power, None for no number.

    `spread` and `items` are None where nobody knows them; `seeds` is empty without a spread. `registered_seeds`: those
    of the recipe's experiment, None without one; `departures`: in what the options differ from it, in words.
    """

    recipe: str
    design: Design
    treatments: int
    effect: float | None
    spread: Spread | None
    seeds: tuple[SeedsPower, ...]
    seeds_needed: int | None
    items: ItemsPower | None
    registered_seeds: int | None = None
    departures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PowerQuestion:
    """What is asked of a design: `seeds` an arm, each number by itself; `items` of a validation, None for unknown."""

    recipe: str
    design: Design
    treatments: int
    seeds: tuple[int, ...]
    items: int | None
    effect: float | None


def power(
    recipe: Recipe,
    *,
    seeds: Sequence[int] = (),
    effect: float | None = None,
    spread: float | None = None,
    margin: float | None = None,
    test: str | None = None,
    several: str | None = None,
    sets: Sequence[str] = (),
    tell: Tell = unheard,
) -> RecipePower:
    """Say what so many `seeds` an arm could show of the recipe's treatments, before any of them runs.

    `effect`, `spread` (the standard deviation between seeds) and `margin` are in points. `test` is superiority,
    non-inferiority or equivalence, `several` dunnett or holm. Without `spread`, that of comparable runs in the index
    counts, by the upper 80 % bound: same model, data, reward and evaluation, several seeds of one arm. What no option
    says is that of the recipe's `experiment`, where it has one. Raises UsageError for options that do not fit.
    """
    from rlx.api.recipes import recipe_file
    from rlx.backends.shared.registering import registration_of

    file = recipe_file(recipe, sets)
    asked = registration_of(file.name, file.control, file.experiment)
    design = _design(asked, test, margin, several)
    _refuse(seeds, effect, spread)
    arms = _earlier(file, asked, tell)
    known = Spread(spread) if spread is not None else spread_of(arms)
    found = computed_power(_question(file, design, _counts(asked, seeds), effect), known, arms)
    if asked is None:
        return found
    return replace(found, registered_seeds=len(asked.seeds), departures=tuple(_departures(asked, design)))


def _counts(asked: Registration | None, seeds: Sequence[int]) -> tuple[int, ...]:
    """The numbers of seeds an arm to compute: those that were named, else that of the experiment among some others."""
    if seeds or asked is None:
        return tuple(dict.fromkeys(seeds)) or SEEDS
    return tuple(sorted({*SEEDS, len(asked.seeds)}))


def _question(file: RecipeFile, design: Design, seeds: Sequence[int], effect: float | None) -> PowerQuestion:
    recipe = file.resolve(file.arms[0]).recipe
    items = recipe.eval.post.row_count if recipe.eval.post else recipe.data.val_rows
    return PowerQuestion(recipe.name, design, max(1, len(file.arms) - 1), tuple(seeds), items, effect)


def computed_power(asked: PowerQuestion, spread: Spread | None, arms: Sequence[EarlierArm]) -> RecipePower:
    """Compute it, with what the comparable earlier `arms` show of accuracy and time."""
    from rlx.compare.design_power import runs_for

    design, treatments = asked.design, asked.treatments
    # With a margin the question is whether nothing is lost: then 0 is the effect that is meant.
    meant = 0.0 if asked.effect is None and design.margin is not None else asked.effect
    needed = None if spread is None or meant is None else runs_for(design, meant, spread.sd, treatments)
    return RecipePower(
        recipe=asked.recipe,
        design=design,
        treatments=treatments,
        effect=meant,
        spread=spread,
        seeds=_by_seeds(design, asked.seeds, meant, spread, treatments, _hours(arms)) if spread else (),
        seeds_needed=needed,
        items=items_power(asked.items, arms) if asked.items else None,
    )


def _design(asked: Registration | None, test: str | None, margin: float | None, several: str | None) -> Design:
    """The design that the options name, and for what they leave open the recipe's experiment."""
    from rlx.compare.registered_design import Claim, Correction, Design

    claim = _one_of(Claim, test or _claim_without_a_word(asked, margin), "--test")
    correction = _one_of(Correction, several or (asked.several if asked else Correction.DUNNETT), "--several")
    if claim is Claim.SUPERIORITY and margin is not None:
        raise UsageError("superiority has no margin", "--test non-inferiority or equivalence has one")
    if claim is not Claim.SUPERIORITY and margin is None:
        margin = asked.margin if asked else None
    if claim is not Claim.SUPERIORITY and not (margin is not None and 0 < margin < float("inf")):
        raise UsageError(
            f"{claim} needs a margin in points, more than 0", "name the loss that would not matter: --margin 2"
        )
    return Design(claim, margin, correction, blocked=asked is not None and asked.is_paired)


def _claim_without_a_word(asked: Registration | None, margin: float | None) -> str:
    """The claim of the experiment, if it can have the margin that an option names."""
    from rlx.compare.registered_design import Claim

    if asked is not None and not (asked.margin is None and margin is not None):
        return asked.test
    return Claim.SUPERIORITY if margin is None else Claim.NON_INFERIORITY


def _departures(asked: Registration, design: Design) -> Iterator[str]:
    """Say where the options ask about another design than the recipe's experiment."""
    if design.claim.value != asked.test:
        yield f"{design.claim.value}, which the recipe's experiment has as {asked.test}"
    if design.margin is not None and asked.margin is not None and design.margin != asked.margin:
        yield f"a margin of {design.margin:g}, which the recipe's experiment has as {asked.margin:g}"
    if design.several.value != asked.several:
        yield f"{design.several.value.capitalize()}, where the recipe's experiment has {asked.several.capitalize()}"


def _one_of(names: type[Claim] | type[Correction], word: str, option: str) -> Any:
    if word not in [each.value for each in names]:
        raise UsageError(f"{option} {word}: there is no such", f"it is one of {', '.join(names)}")
    return names(word)


def _refuse(seeds: Sequence[int], effect: float | None, spread: float | None) -> None:
    from math import isfinite

    from rlx.compare.design_power import MOST_RUNS

    if any(not 2 <= count <= MOST_RUNS for count in seeds):
        raise UsageError(f"--seeds: numbers of seeds an arm, from 2 to {MOST_RUNS}", "one seed says nothing of an arm")
    if effect is not None and not isfinite(effect):
        raise UsageError("--effect: no number of points", "name the difference you hope for: --effect 2")
    if spread is not None and not (isfinite(spread) and spread > 0):
        raise UsageError("--spread: a standard deviation in points, more than 0", "leave it out to use earlier runs")


def _earlier(file: RecipeFile, asked: Registration | None, tell: Tell) -> tuple[EarlierArm, ...]:
    """The comparable arms with the experiment's metric, else with that of the newest."""
    from rlx.api.earlier_runs import earlier_arms
    from rlx.api.selection import open_index

    document = file.resolve(file.control or file.arms[0]).document
    return of_one_metric(earlier_arms(open_index(), document, tell, asked))


def of_one_metric(found: Sequence[EarlierArm]) -> tuple[EarlierArm, ...]:
    """Those with the metric of the first: values of two metrics have no spread in common."""
    return tuple(arm for arm in found if (arm.metric, arm.in_points) == (found[0].metric, found[0].in_points))


def spread_of(arms: Sequence[EarlierArm]) -> Spread | None:
    """The upper bound of the spread within these arms; None without any, or where all their runs are alike."""
    from rlx.compare.spreads import pooled_sd, upper_sd

    if not arms:
        return None
    observed, df = pooled_sd([arm.values for arm in arms])
    return Spread(upper_sd(observed, df), observed, df, tuple(arms)) if observed else None


def _by_seeds(
    design: Design, seeds: Sequence[int], effect: float | None, spread: Spread, treatments: int, hours: float | None
) -> tuple[SeedsPower, ...]:
    from rlx.compare import design_power as of
    from rlx.compare.registered_design import Claim, Design

    equivalence = Design(Claim.EQUIVALENCE, margin=1.0, several=design.several)
    visible = of.smallest_effect if design.claim is Claim.SUPERIORITY else of.smallest_margin
    return tuple(
        SeedsPower(
            seeds=count,
            power=None if effect is None else of.power(design, effect, spread.sd, count, treatments),
            visible=visible(design, spread.sd, count, treatments),
            equivalent_within=of.smallest_margin(equivalence, spread.sd, count, treatments),
            device_hours=None if hours is None else hours * count * (treatments + 1),
        )
        for count in seeds
    )


def _hours(arms: Sequence[EarlierArm]) -> float | None:
    """Device hours of one run, by the newest arm that logged its step times."""
    return next((arm.hours for arm in arms if arm.hours is not None), None)


def items_power(items: int, arms: Sequence[EarlierArm]) -> ItemsPower:
    """What so many items show, at the accuracy of the earlier runs, or at 50 %, where chance is largest."""
    from statistics import fmean

    from rlx.compare.proportions import detectable_share

    known = [value for arm in arms if arm.in_points for value in arm.values]
    share = fmean(known) / 100 if known else _SHARE
    # As in the test: one right and one wrong answer more, so that a run at 100 % does not promise everything.
    smoothed = (share * items + 1) / (items + 2)
    variance = smoothed * (1 - smoothed)
    return ItemsPower(
        items, share, 100 * (variance / items) ** 0.5, min(100.0, 100 * detectable_share(variance, items))
    )


def power_findings(found: RecipePower | None) -> Iterator[Finding]:
    """Warn of a design that will rather say nothing. What is only assumed accuses nobody."""
    if found is None or found.spread is None or found.spread.observed is None:
        return
    row = found.seeds[0]
    if row.power is None or row.power >= _LOW:
        return
    seeds = f"; {found.seeds_needed} seeds an arm show it with 80 % power" if found.seeds_needed else ""
    message = (
        f"experiment: with {row.seeds} seeds an arm, which spread by {found.spread.sd:.2g} points, "
        f"{_claim_words(found)} in {_percent(row.power)} of cases{seeds}"
    )
    fix = "more seeds, before the first launch: rlx power RECIPE --seeds N says what they can see"
    yield Finding("RLX042", Severity.WARNING, message, fix, "experiment.seeds")


def _claim_words(found: RecipePower) -> str:
    """What the design shows in so few cases."""
    from rlx.compare.registered_design import Claim

    margin = found.design.margin
    if found.design.claim is Claim.EQUIVALENCE:
        return f"arms without any difference would be shown to be within {margin:g} points"
    if margin is not None:
        return f"arms without any difference would be shown to lose less than {margin:g} points"
    return f"even the largest rise there is room for, {found.effect:.2g} points, would be seen"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
