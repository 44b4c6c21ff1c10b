"""Report an experiment that its own recipe cannot answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.backends.protocol import load_backend
from rlx.backends.shared.registering import registration_of
from rlx.errors import UsageError
from rlx.model import Expectations, Registration, Site
from rlx.model.post_metric import is_post, post_metric
from rlx.model.registration import AREA, LAST
from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule, warning

_LEAST_FOR_AN_AREA = 2
_DUNNETT = "dunnett"
_MEAN = "mean"


def _registration(facts: RecipeFacts) -> Registration | None:
    resolved = facts.resolved
    return registration_of(resolved.recipe.name, resolved.control, resolved.experiment)


@rule("RLX036")
def has_a_control(facts: RecipeFacts) -> Iterator[RuleFinding]:
    registration = _registration(facts)
    if registration and not registration.control and len(registration.arms) > 1:
        names = ", ".join(arm.name for arm in registration.arms)
        yield error("experiment: the recipe names no control", f"control: one of {names}", "experiment.question")


@rule("RLX037")
def has_two_arms(facts: RecipeFacts) -> Iterator[RuleFinding]:
    registration = _registration(facts)
    if registration and len(registration.arms) < 2:
        message = f"experiment: the recipe has one arm, {registration.arms[0].name}"
        yield error(message, "arms: with the control and the arms to compare with it", "experiment.question")


@rule("RLX038")
def registered_seed(facts: RecipeFacts) -> Iterator[RuleFinding]:
    registration, seed = _registration(facts), facts.recipe.seed
    if registration is None or seed in registration.seeds:
        return
    registered = f"the experiment registers {registration.seeds[0]} to {registration.seeds[-1]}"
    if seed in registration.spare_seeds:
        yield note(f"seed {seed} is a spare: it counts only for a run that its machine ended", key="seed")
    else:
        fix = f"--seed {registration.seeds[0]} and so on, or another experiment"
        yield warning(f"seed {seed}: {registered}, and results of this seed are exploratory", fix, "seed")


@rule("RLX039")
def measures_its_primary(facts: RecipeFacts) -> Iterator[RuleFinding]:
    registration = _registration(facts)
    for one in (replace(registration, metric=metric) for metric in registration.metrics) if registration else ():
        if is_post(one.metric):
            yield from _of_post(facts, one)
        elif (statistic := _statistic(one.metric)) and (expected := _validations(facts)):
            yield from _of_validations(one, expected, *statistic)


def _statistic(metric: str) -> tuple[str, str] | None:
    """Return `mean`, `4` for `…/acc/mean@4`, which only validations have; None for a metric of the training."""
    part = next((part for part in reversed(metric.split("/")) if "@" in part), "")
    kind, _, count = part.partition("@")
    return (kind, count) if part else None


def _of_post(facts: RecipeFacts, registration: Registration) -> Iterator[RuleFinding]:
    """Check a metric of the evaluation after the training, which has one value and one name."""
    post = facts.recipe.eval.post
    if post is None:
        message = f"experiment.primary.metric {registration.metric}: nothing is evaluated after the training"
        yield error(message, "eval.post, or a metric of the validations", "experiment.primary.metric")
    elif registration.metric != (given := post_metric(post.n)):
        message = f"experiment.primary.metric {registration.metric}: with eval.post.n {post.n} its name is {given}"
        yield error(message, f"{given}, or another eval.post.n", "experiment.primary.metric")
    elif registration.at != LAST:
        message = f"experiment.primary.at {registration.at}: eval.post has one value, that of the last checkpoint"
        yield error(message, "at: last, or a metric of the validations", "experiment.primary.at")


def _validations(facts: RecipeFacts) -> Expectations | None:
    """Return the expected validations during the training; None where another finding reports why there are none.

    With `eval.post` the plan's own expectations are about the evaluation after the training.
    """
    during = facts.recipe.eval.model_copy(update={"post": None})
    resolved = replace(facts.resolved, recipe=facts.recipe.model_copy(update={"eval": during}))
    try:
        return load_backend(facts.recipe.backend.kind).plan(resolved, Site(), facts.found).expectations
    except UsageError:
        return None


def _of_validations(registration: Registration, expected: Expectations, kind: str, count: str) -> Iterator[RuleFinding]:
    if reason := _unmeasured(registration, expected):
        fix = "an eval.every that fits, or another experiment.primary.at"
        yield error(f"experiment.primary.at {registration.at}: {reason}", fix, "experiment.primary.at")
    taken = expected.validation_samples
    if count.isdecimal() and (int(count) > taken or (kind == _MEAN and int(count) != taken)):
        a_row = "1 sample" if taken == 1 else f"{taken} samples"
        metric = f"experiment.primary.metric {registration.metric}"
        message = f"{metric}: validations take {a_row} per row, which is not {kind}@{count}"
        yield warning(message, f"{_MEAN}@{taken}, or another eval.n", "experiment.primary.metric")


def _unmeasured(registration: Registration, expected: Expectations) -> str:
    """Return why the run has no such value; empty if it will have one, or its length is not known."""
    if registration.at == LAST:
        return "" if expected.last_step_validated else "the last step is not validated"
    needed = _LEAST_FOR_AN_AREA if registration.at == AREA else registration.validations
    measured = [step for step in expected.validation_steps if step > 0 or registration.at == AREA]
    if expected.total_steps is None or len(measured) >= needed:
        return ""
    return f"it needs {needed} validations, and the plan has {len(measured)}"


@rule("RLX040")
def graded_alike(facts: RecipeFacts) -> Iterator[RuleFinding]:
    registration = _registration(facts)
    if registration is None:
        return
    first = next((arm for arm in registration.arms if arm.name == registration.control), registration.arms[0])
    others = [arm.name for arm in registration.arms if arm.evaluation != first.evaluation]
    if others:
        message = f"experiment: {', '.join(others)} would be graded differently from {first.name}"
        fix = "one evaluation for all arms, such as eval.post with its own reward"
        yield error(message, fix, "experiment.question")


@rule("RLX041")
def one_spread_for_all(facts: RecipeFacts) -> Iterator[RuleFinding]:
    registration = _registration(facts)
    if registration and registration.control and registration.several == _DUNNETT and len(registration.treatments) > 1:
        message = (
            f"experiment.several dunnett: the test of {len(registration.treatments)} treatments takes one spread for "
            "all, and errs in up to 17 % of cases where the spreads of arms differ 2 to 4 times; holm is valid there"
        )
        yield note(message, key="experiment.several")
