"""Find earlier runs that say how far the seeds of one arm spread: same model, data, reward and evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.evidence import JudgedRun
    from rlx.model import Registration
    from rlx.runs import Index, RunRef

_SAME = ("model", "data", "reward", "eval")
# How often a run was validated on the way moves nothing in the last value.
_FREE = frozenset({"every", "before_train"})
_MOST_ARMS = 12


@dataclass(frozen=True, slots=True)
class EarlierArm:
    """Two or more finished seeds of one arm. `values` of `metric` at `step`, the last that all have, in points.

    `in_points`: they are shares, so that a point is a hundredth; else values stand as they are. `hours`: device hours
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
    index: Index, document: Mapping[str, Any], tell: Tell, asked: Registration | None = None, *, asks: bool = True
) -> tuple[EarlierArm, ...]:
    """The arms in the index that are comparable to a recipe, the newest first; at most 12.

    Runs that are no result do not count. The values are those that `asked` registers; without it those of the first
    validation metric of each arm's logs, at the last step. Files that are on this machine decide which runs are
    comparable; only hosts of those are asked, and none unless it `asks`: then what is not here does not count. What
    cannot be read is told and left out.
    """
    groups = _groups(index, index.runs() if asks else index.known_runs(), document)
    return tuple(islice(_readable(index, groups, tell, asked, asks), _MOST_ARMS))


def _readable(
    index: Index, groups: Iterable[Sequence[RunRef]], tell: Tell, asked: Registration | None, asks: bool
) -> Iterator[EarlierArm]:
    for refs in groups:
        try:
            arm = _arm(index, refs, asked, asks=asks)
        except RlxError as error:
            tell(f"left out: {error.message}")
        else:
            yield from () if arm is None else (arm,)


def _groups(index: Index, refs: Sequence[RunRef], like: Mapping[str, Any]) -> list[Sequence[RunRef]]:
    """Runs that differ in nothing but their seed, two or more of them, the newest of each seed."""
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
    """The recipe with today's defaults; None for another version's, of which nobody knows whether it is comparable."""
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
    """The parts of a recipe that must be the same. A reward function counts by the name of its file: its folder is that
    of whoever launched it."""
    from pathlib import PurePath

    own = {key: document.get(key) for key in _SAME}
    reward = own["reward"]
    if isinstance(reward, Mapping) and "path" in reward:
        own["reward"] = {**reward, "path": PurePath(reward["path"]).name}
    return {**own, "eval": {key: value for key, value in (own["eval"] or {}).items() if key not in _FREE}}


def _arm(index: Index, refs: Sequence[RunRef], asked: Registration | None, *, asks: bool) -> EarlierArm | None:
    """The values of these runs; None where fewer than two are a finished result with such a value."""
    from rlx.compare.item_counts import is_share
    from rlx.compare.metric import choose_metric
    from rlx.runs.judging.judge_runs import judge_cached, judge_runs

    judged = judge_runs(index, refs) if asks else judge_cached(index, refs)
    runs = [run for run in judged if run.state.is_terminal and run.verdict.is_result(ended=True)]
    if len(runs) < 2:
        return None
    metric = asked.metric if asked else choose_metric(runs, None)
    step, found = _registered_values(runs, asked) if asked else _last_values(runs, metric)
    if len(found) < 2:
        return None
    share = is_share(metric, [*found.values()])
    values = tuple(100 * value if share else value for value in found.values())
    return EarlierArm(refs[0].name, refs[0].arm, tuple(found), metric, step, values, share, _hours(runs))


def _registered_values(runs: Sequence[JudgedRun], asked: Registration) -> tuple[int, dict[str, float]]:
    """The last step of the values that were asked for, and those by run, as far as runs have them."""
    from rlx.compare import primary_values

    values = primary_values(runs, asked)
    found = {run.run_id: each for run, each in zip(runs, values, strict=True) if each.value is not None}
    step = max((step for each in found.values() for step in each.steps), default=0)
    return step, {run_id: each.value for run_id, each in found.items() if each.value is not None}


def _last_values(runs: Sequence[JudgedRun], metric: str) -> tuple[int, dict[str, float]]:
    """The last step that all runs have in common, and their values there; nothing without one."""
    from rlx.evidence import series

    curves = {run.run_id: dict(series(run.evidence, metric)) for run in runs}
    step = max(set.intersection(*map(set, curves.values())), default=0)
    return step, {run_id: curve[step] for run_id, curve in curves.items() if step in curve}


def _hours(runs: Sequence[JudgedRun]) -> float | None:
    """Device hours of one run: the mean over those that logged the time of each step."""
    from statistics import fmean

    from rlx.compare.pace import pace

    found = [(pace(run.evidence, run.plan.devices).training_seconds, run.plan.devices) for run in runs]
    hours = [seconds * devices / 3600 for seconds, devices in found if seconds is not None]
    return fmean(hours) if hours else None
