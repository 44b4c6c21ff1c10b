"""Say before a launch what its seeds and items could show, from the spread of earlier runs or an assumed one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from rlx.api.runs import unheard
from rlx.errors import RlxError, UsageError
from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.api.recipes import Recipe
    from rlx.api.runs import Tell
    from rlx.compare.registered_design import Claim, Design, MultiplicityCorrection
    from rlx.evidence import JudgedRun
    from rlx.model import Registration
    from rlx.recipe import RecipeFile
    from rlx.runs import Index, RunRef

SEEDS = (2, 3, 5, 8, 10)
_SHARE = 0.5
_LOW = 0.5
_SAME = ("model", "data", "reward", "eval")
# How often a run was validated on the way moves nothing in the last value.
_FREE = frozenset({"every", "before_train"})
_MOST_ARMS = 12


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation between seeds of one arm, in points, that the power is computed with.

    `sd` is the upper 80 % bound of `observed`, the spread of the earlier `arms` with `df` degrees of freedom. If it was
    given or assumed, `observed` is None and `df` 0.
    """

    sd: float
    observed: float | None = None
    df: int = 0
    arms: tuple[EarlierArm, ...] = ()


@dataclass(frozen=True, slots=True)
class SeedsPower:
    """Hold what `seeds` seeds per arm can show. `power`: for the effect, None if none was named.

    With 80 % power, in points: `visible`, the smallest difference (superiority), or for equal arms the smallest margin;
    `equivalent_within`, the smallest margin of equivalence. `device_hours`: of all runs, None if the time of a step is
    not known.
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

    `spread` and `items` are None where they are not known; `seeds` is empty without a spread. `registered_seeds`: those
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
    """The input of a power computation: `seeds` per arm, each number separately; `items` of a validation, None for
    unknown.
    """

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
    registration = registration_of(file.name, file.control, file.experiment)
    design = _design(registration, test, margin, several)
    _refuse(seeds, effect, spread)
    arms = _earlier(file, registration, tell)
    known = Spread(spread) if spread is not None else spread_of(arms)
    found = computed_power(_question(file, design, _counts(registration, seeds), effect), known, arms)
    if registration is None:
        return found
    return replace(found, registered_seeds=len(registration.seeds), departures=tuple(_departures(registration, design)))


def _counts(registration: Registration | None, seeds: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of seeds an arm to compute: those that were named, else that of the experiment among some
    others.
    """
    if seeds or registration is None:
        return tuple(dict.fromkeys(seeds)) or SEEDS
    return tuple(sorted({*SEEDS, len(registration.seeds)}))


def _question(file: RecipeFile, design: Design, seeds: Sequence[int], effect: float | None) -> PowerQuestion:
    recipe = file.resolve(file.arms[0]).recipe
    items = recipe.eval.post.row_count if recipe.eval.post else recipe.data.val_rows
    return PowerQuestion(recipe.name, design, max(1, len(file.arms) - 1), tuple(seeds), items, effect)


def computed_power(question: PowerQuestion, spread: Spread | None, arms: Sequence[EarlierArm]) -> RecipePower:
    """Compute it, with what the comparable earlier `arms` show of accuracy and time."""
    from rlx.compare.registered_design import runs_for

    design, treatments = question.design, question.treatments
    # With a margin the question is whether nothing is lost: then 0 is the effect that is meant.
    meant = 0.0 if question.effect is None and design.margin is not None else question.effect
    needed = None if spread is None or meant is None else runs_for(design, meant, spread.sd, treatments)
    # Device hours of one run, by the newest arm that logged its step times.
    hours = next((arm.hours for arm in arms if arm.hours is not None), None)
    return RecipePower(
        recipe=question.recipe,
        design=design,
        treatments=treatments,
        effect=meant,
        spread=spread,
        seeds=_by_seeds(design, question.seeds, meant, spread, treatments, hours) if spread else (),
        seeds_needed=needed,
        items=items_power(question.items, arms) if question.items else None,
    )


def _design(registration: Registration | None, test: str | None, margin: float | None, several: str | None) -> Design:
    """Return the design that the options name, and for what they leave open the recipe's experiment."""
    from rlx.compare.registered_design import Claim, Design, MultiplicityCorrection

    claim = _one_of(Claim, test or _claim_without_a_word(registration, margin), "--test")
    correction = _one_of(
        MultiplicityCorrection,
        several or (registration.several if registration else MultiplicityCorrection.DUNNETT),
        "--several",
    )
    if claim is Claim.SUPERIORITY and margin is not None:
        raise UsageError("superiority has no margin", "--test non-inferiority or equivalence has one")
    if claim is not Claim.SUPERIORITY and margin is None:
        margin = registration.margin if registration else None
    if claim is not Claim.SUPERIORITY and not (margin is not None and 0 < margin < float("inf")):
        raise UsageError(
            f"{claim} needs a margin in points, more than 0", "name the loss that would not matter: --margin 2"
        )
    return Design(claim, margin, correction, blocked=registration is not None and registration.is_paired)


def _claim_without_a_word(registration: Registration | None, margin: float | None) -> str:
    """Return the claim of the experiment, if it can have the margin that an option names."""
    from rlx.compare.registered_design import Claim

    if registration is not None and not (registration.margin is None and margin is not None):
        return registration.test
    return Claim.SUPERIORITY if margin is None else Claim.NON_INFERIORITY


def _departures(registration: Registration, design: Design) -> Iterator[str]:
    """Say where the options ask about another design than the recipe's experiment."""
    if design.claim.value != registration.test:
        yield f"{design.claim.value}, which the recipe's experiment has as {registration.test}"
    if design.margin is not None and registration.margin is not None and design.margin != registration.margin:
        yield f"a margin of {design.margin:g}, which the recipe's experiment has as {registration.margin:g}"
    if design.several.value != registration.several:
        several, registered = design.several.value.capitalize(), registration.several.capitalize()
        yield f"{several}, where the recipe's experiment has {registered}"


def _one_of(names: type[Claim] | type[MultiplicityCorrection], word: str, option: str) -> Any:
    if word not in [each.value for each in names]:
        raise UsageError(f"{option} {word}: there is no such", f"it is one of {', '.join(names)}")
    return names(word)


def _refuse(seeds: Sequence[int], effect: float | None, spread: float | None) -> None:
    from math import isfinite

    from rlx.compare.registered_design import MOST_RUNS

    if any(not 2 <= count <= MOST_RUNS for count in seeds):
        raise UsageError(
            f"--seeds: numbers of seeds per arm, from 2 to {MOST_RUNS}", "one seed is not enough to judge an arm"
        )
    if effect is not None and not isfinite(effect):
        raise UsageError("--effect: no number of points", "name the difference you hope for: --effect 2")
    if spread is not None and not (isfinite(spread) and spread > 0):
        raise UsageError("--spread: a standard deviation in points, more than 0", "leave it out to use earlier runs")


def _earlier(file: RecipeFile, registration: Registration | None, tell: Tell) -> tuple[EarlierArm, ...]:
    """Return the comparable arms with the experiment's metric, else with that of the newest."""
    from rlx.api.runs import open_index

    document = file.resolve(file.control or file.arms[0]).document
    return of_one_metric(earlier_arms(open_index(), document, tell, registration))


def of_one_metric(found: Sequence[EarlierArm]) -> tuple[EarlierArm, ...]:
    """Those with the metric of the first: values of two metrics have no spread in common."""
    return tuple(arm for arm in found if (arm.metric, arm.in_points) == (found[0].metric, found[0].in_points))


def spread_of(arms: Sequence[EarlierArm]) -> Spread | None:
    """Return the upper bound of the spread within these arms; None without any, or where all their runs are alike."""
    from rlx.compare.statistic import pooled_sd, upper_sd

    if not arms:
        return None
    observed, df = pooled_sd([arm.values for arm in arms])
    return Spread(upper_sd(observed, df), observed, df, tuple(arms)) if observed else None


def _by_seeds(
    design: Design, seeds: Sequence[int], effect: float | None, spread: Spread, treatments: int, hours: float | None
) -> tuple[SeedsPower, ...]:
    from rlx.compare import registered_design as of
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


def items_power(items: int, arms: Sequence[EarlierArm]) -> ItemsPower:
    """Compute what so many items can show, at the accuracy of earlier runs, or at 50 %, where chance is largest."""
    from statistics import fmean

    from rlx.compare.proportions import detectable_share

    known = [value for arm in arms if arm.in_points for value in arm.values]
    share = fmean(known) / 100 if known else _SHARE
    # One right and one wrong answer are added, as in the test of proportions: else 100 % would have no variance.
    smoothed = (share * items + 1) / (items + 2)
    variance = smoothed * (1 - smoothed)
    return ItemsPower(
        items, share, 100 * (variance / items) ** 0.5, min(100.0, 100 * detectable_share(variance, items))
    )


def power_findings(found: RecipePower | None) -> Iterator[Finding]:
    """Warn of an underpowered design. Assumed spreads never warn."""
    if found is None or found.spread is None or found.spread.observed is None:
        return
    row = found.seeds[0]
    if row.power is None or row.power >= _LOW:
        return
    seeds = f"; {found.seeds_needed} seeds per arm show it with 80 % power" if found.seeds_needed else ""
    message = (
        f"experiment: with {row.seeds} seeds per arm, which spread by {found.spread.sd:.2g} points, "
        f"{_claim_words(found)} in only {100 * row.power:.0f} % of cases{seeds}"
    )
    fix = "plan more seeds before the first launch: rlx power RECIPE --seeds N says what they can show"
    yield Finding("RLX042", Severity.WARNING, message, fix, "experiment.seeds")


def _claim_words(found: RecipePower) -> str:
    """Return what the design shows in so few cases, in words."""
    from rlx.compare.registered_design import Claim

    margin = found.design.margin
    if found.design.claim is Claim.EQUIVALENCE:
        return f"arms without any difference would be shown to be within {margin:g} points"
    if margin is not None:
        return f"arms without any difference would be shown to lose less than {margin:g} points"
    return f"even the largest rise there is room for, {found.effect:.2g} points, would be detected"


@dataclass(frozen=True, slots=True)
class EarlierArm:
    """Two or more finished seeds of one arm. `values`: one per run, the registered primary value, else `metric` at
    `step`, the last step that all have.

    `in_points`: they are shares, given in hundredths; else the values are unchanged. `hours`: device hours
    of one run by its own step times, None where it did not log them.
    """

    name: str
    arm: str
    run_ids: tuple[str, ...]
    metric: str
    step: int
    values: tuple[float, ...]
    in_points: bool
    hours: float | None


def earlier_arms(
    index: Index,
    document: Mapping[str, Any],
    tell: Tell,
    registration: Registration | None = None,
    *,
    queries_hosts: bool = True,
) -> tuple[EarlierArm, ...]:
    """Return the arms in the index that are comparable to a recipe, the newest first; at most 12.

    Runs that are no result do not count. The values are the registered ones; without a `registration` those of the
    first validation metric of each arm's logs, at the last step. Files that are on this machine decide which runs are
    comparable; only hosts of those are queried, and none without `queries_hosts`: then what is not here does not count.
    What cannot be read is reported and left out.
    """
    groups = _groups(index, index.runs() if queries_hosts else index.known_runs(), document)
    return tuple(islice(_readable(index, groups, tell, registration, queries_hosts), _MOST_ARMS))


def _readable(
    index: Index, groups: Iterable[Sequence[RunRef]], tell: Tell, registration: Registration | None, queries_hosts: bool
) -> Iterator[EarlierArm]:
    for refs in groups:
        try:
            arm = _arm(index, refs, registration, queries_hosts=queries_hosts)
        except RlxError as error:
            tell(f"left out: {error.message}")
        else:
            yield from () if arm is None else (arm,)


def _groups(index: Index, refs: Sequence[RunRef], like: Mapping[str, Any]) -> list[Sequence[RunRef]]:
    """Group runs that differ in nothing but their seed: two or more, the newest of each seed."""
    import json

    wanted = _compared(like)
    groups: dict[str, dict[int, RunRef]] = {}
    for ref, document in runs_of_model(index, refs, like):
        if _compared(document) == wanted:
            key = json.dumps([ref.arm, {**document, "seed": None, "waive": None}], sort_keys=True)
            groups.setdefault(key, {}).setdefault(ref.seed, ref)
    return [[*seeds.values()] for seeds in groups.values() if len(seeds) > 1]


def runs_of_model(
    index: Index, refs: Sequence[RunRef], like: Mapping[str, Any]
) -> Iterator[tuple[RunRef, Mapping[str, Any]]]:
    """Each run of that model whose recipe is known here, with that recipe as this rlx would write it."""
    from rlx.runs import read_manifest
    from rlx.runs.copies.mirror import kept

    copies = kept(index, refs)
    for ref in refs:
        manifest = read_manifest(copies[ref.run_id].run_dir)
        if manifest is None or not manifest.plan.has_recipe or _model(manifest.plan.recipe) != _model(like):
            continue
        if (document := _as_of_now(manifest.plan.recipe)) is not None:
            yield ref, document


def _as_of_now(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the recipe with today's defaults; None for another version's recipe, which may not be comparable."""
    import json

    from pydantic import ValidationError

    from rlx.recipe.schema import Recipe

    try:
        return Recipe.model_validate_json(json.dumps(document)).model_dump(mode="json")
    except ValidationError:
        return None


def _model(document: Mapping[str, Any]) -> object:
    model = document.get("model")
    return model.get("path") if isinstance(model, Mapping) else None


def _compared(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a recipe that must be the same. A reward function counts by the name of its file: its folder
    is the launching user's.
    """
    from pathlib import PurePath

    own = {key: document.get(key) for key in _SAME}
    reward = own["reward"]
    if isinstance(reward, Mapping) and "path" in reward:
        own["reward"] = {**reward, "path": PurePath(reward["path"]).name}
    return {**own, "eval": {key: value for key, value in (own["eval"] or {}).items() if key not in _FREE}}


def _arm(
    index: Index, refs: Sequence[RunRef], registration: Registration | None, *, queries_hosts: bool
) -> EarlierArm | None:
    """Return the values of these runs; None where fewer than two are a finished result with such a value."""
    from rlx.compare.metric import choose_metric, is_share
    from rlx.runs.judging.judge_runs import judge_cached, judge_runs

    judged = judge_runs(index, refs) if queries_hosts else judge_cached(index, refs)
    runs = [run for run in judged if run.state.is_terminal and run.verdict.is_result(ended=True)]
    if len(runs) < 2:
        return None
    metric = registration.metric if registration else choose_metric(runs, None)
    step, found = _registered_values(runs, registration) if registration else _last_values(runs, metric)
    if len(found) < 2:
        return None
    share = is_share(metric, [*found.values()])
    values = tuple(100 * value if share else value for value in found.values())
    return EarlierArm(refs[0].name, refs[0].arm, tuple(found), metric, step, values, share, _device_hours(runs))


def _registered_values(runs: Sequence[JudgedRun], registration: Registration) -> tuple[int, dict[str, float]]:
    """Return the last step of the registered values, and those by run, as far as runs have them."""
    from rlx.compare import primary_values

    values = primary_values(runs, registration)
    found = {run.run_id: each for run, each in zip(runs, values, strict=True) if each.value is not None}
    step = max((step for each in found.values() for step in each.steps), default=0)
    return step, {run_id: each.value for run_id, each in found.items() if each.value is not None}


def _last_values(runs: Sequence[JudgedRun], metric: str) -> tuple[int, dict[str, float]]:
    """Return the last step that all runs have in common, and their values there; nothing without one."""
    from rlx.evidence import series

    curves = {run.run_id: dict(series(run.evidence, metric)) for run in runs}
    step = max(set.intersection(*map(set, curves.values())), default=0)
    return step, {run_id: curve[step] for run_id, curve in curves.items() if step in curve}


def _device_hours(runs: Sequence[JudgedRun]) -> float | None:
    """Device hours of one run: the mean over those that logged the time of each step."""
    from statistics import fmean

    from rlx.compare.pace import pace

    found = [(pace(run.evidence, run.plan.devices).training_seconds, run.plan.devices) for run in runs]
    hours = [seconds * devices / 3600 for seconds, devices in found if seconds is not None]
    return fmean(hours) if hours else None
