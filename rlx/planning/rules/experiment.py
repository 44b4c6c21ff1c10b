"""An experiment that its own recipe could not answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.backends.protocol import load_backend
from rlx.backends.shared.registering import registration_of
from rlx.errors import UsageError
from rlx.model import Expectations, Registration, Site
from rlx.model.post_metric import is_post, post_metric
from rlx.model.registration import AREA, LAST
from rlx.planning.rules.facts import Facts
from rlx.planning.rules.rule_table import Flaw, error, note, rule, warning

_LEAST_FOR_AN_AREA = 2
_DUNNETT = "dunnett"
_MEAN = "mean"


def _asked(facts: Facts) -> Registration | None:
    resolved = facts.resolved
    return registration_of(resolved.recipe.name, resolved.control, resolved.experiment)


@rule("RLX036")
def has_a_control(facts: Facts) -> Iterator[Flaw]:
    asked = _asked(facts)
    if asked and not asked.control and len(asked.arms) > 1:
        names = ", ".join(arm.name for arm in asked.arms)
        yield error("experiment: the recipe names no control", f"control: one of {names}", "experiment.question")


@rule("RLX037")
def has_two_arms(facts: Facts) -> Iterator[Flaw]:
    asked = _asked(facts)
    if asked and len(asked.arms) < 2:
        message = f"experiment: the recipe has one arm, {asked.arms[0].name}"
        yield error(message, "arms: with the control and what is held against it", "experiment.question")


@rule("RLX038")
def registered_seed(facts: Facts) -> Iterator[Flaw]:
    asked, seed = _asked(facts), facts.recipe.seed
    if asked is None or seed in asked.seeds:
        return
    registered = f"the experiment registers {asked.seeds[0]} to {asked.seeds[-1]}"
    if seed in asked.spare_seeds:
        yield note(f"seed {seed} is a spare: it counts only in place of a run that its machine ended", key="seed")
    else:
        fix = f"--seed {asked.seeds[0]} and so on, or another experiment"
        yield warning(f"seed {seed}: {registered}, and what this one shows is exploratory", fix, "seed")


@rule("RLX039")
def measures_its_primary(facts: Facts) -> Iterator[Flaw]:
    asked = _asked(facts)
    for one in (replace(asked, metric=metric) for metric in asked.metrics) if asked else ():
        if is_post(one.metric):
            yield from _of_post(facts, one)
        elif (statistic := _statistic(one.metric)) and (promised := _validations(facts)):
            yield from _of_validations(one, promised, *statistic)


def _statistic(metric: str) -> tuple[str, str] | None:
    """`mean`, `4` of `…/acc/mean@4`, which only validations have; None for a metric of the training."""
    part = next((part for part in reversed(metric.split("/")) if "@" in part), "")
    kind, _, count = part.partition("@")
    return (kind, count) if part else None


def _of_post(facts: Facts, asked: Registration) -> Iterator[Flaw]:
    """The evaluation after the training has one value, by one name."""
    post = facts.recipe.eval.post
    if post is None:
        message = f"experiment.primary.metric {asked.metric}: nothing is evaluated after the training"
        yield error(message, "eval.post, or a metric of the validations", "experiment.primary.metric")
    elif asked.metric != (given := post_metric(post.n)):
        message = f"experiment.primary.metric {asked.metric}: with eval.post.n {post.n} its name is {given}"
        yield error(message, f"{given}, or another eval.post.n", "experiment.primary.metric")
    elif asked.at != LAST:
        message = f"experiment.primary.at {asked.at}: eval.post has one value, that of the last checkpoint"
        yield error(message, "at: last, or a metric of the validations", "experiment.primary.at")


def _validations(facts: Facts) -> Expectations | None:
    """What the plan promises of the validations during the training; None where another finding says why it does not.

    With `eval.post` the plan's own promise is about that.
    """
    during = facts.recipe.eval.model_copy(update={"post": None})
    resolved = replace(facts.resolved, recipe=facts.recipe.model_copy(update={"eval": during}))
    try:
        return load_backend(facts.recipe.backend.kind).plan(resolved, Site(), facts.found).expectations
    except UsageError:
        return None


def _of_validations(asked: Registration, promised: Expectations, kind: str, count: str) -> Iterator[Flaw]:
    if reason := _unmeasured(asked, promised):
        fix = "an eval.every that fits, or another experiment.primary.at"
        yield error(f"experiment.primary.at {asked.at}: {reason}", fix, "experiment.primary.at")
    taken = promised.validation_samples
    if count.isdecimal() and (int(count) > taken or (kind == _MEAN and int(count) != taken)):
        a_row = "1 sample" if taken == 1 else f"{taken} samples"
        message = (
            f"experiment.primary.metric {asked.metric}: validations take {a_row} a row, which is no {kind}@{count}"
        )
        yield warning(message, f"{_MEAN}@{taken}, or another eval.n", "experiment.primary.metric")


def _unmeasured(asked: Registration, promised: Expectations) -> str:
    """Say why the run has no such value; empty if it will have one, or nobody knows how long it is."""
    if asked.at == LAST:
        return "" if promised.last_step_validated else "the last step is not validated"
    needed = _LEAST_FOR_AN_AREA if asked.at == AREA else asked.validations
    measured = [step for step in promised.validation_steps if step > 0 or asked.at == AREA]
    if promised.total_steps is None or len(measured) >= needed:
        return ""
    return f"it needs {needed} validations, and the plan has {len(measured)}"


@rule("RLX040")
def graded_alike(facts: Facts) -> Iterator[Flaw]:
    asked = _asked(facts)
    if asked is None:
        return
    first = next((arm for arm in asked.arms if arm.name == asked.control), asked.arms[0])
    others = [arm.name for arm in asked.arms if arm.evaluation != first.evaluation]
    if others:
        message = f"experiment: {', '.join(others)} would be graded otherwise than {first.name}"
        fix = "one evaluation for all arms, such as eval.post with its own reward"
        yield error(message, fix, "experiment.question")


@rule("RLX041")
def one_spread_for_all(facts: Facts) -> Iterator[Flaw]:
    asked = _asked(facts)
    if asked and asked.control and asked.several == _DUNNETT and len(asked.treatments) > 1:
        message = (
            f"experiment.several dunnett: the test of {len(asked.treatments)} treatments takes one spread for all, "
            "and errs in up to 17 % of cases where arms spread 2 to 4 times unlike each other; holm holds there"
        )
        yield note(message, key="experiment.several")
