"""The experiment that a recipe declares becomes the registration that its plans carry, and the other way round."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rlx.model.registration import FORM, MEAN_OF_LAST, RegisteredArm, Registration

if TYPE_CHECKING:
    from rlx.recipe.declared_experiment import DeclaredExperiment


def registration_of(name: str, control: str | None, experiment: DeclaredExperiment | None) -> Registration | None:
    """Write down what the recipe of that name asks; None if it asks nothing."""
    if experiment is None:
        return None
    asked = experiment.section
    moment = asked.primary.at
    values = Registration(
        name=name,
        question=asked.question,
        metric=asked.primary.metric,
        at=moment if isinstance(moment, str) else MEAN_OF_LAST,
        validations=1 if isinstance(moment, str) else moment.mean_of_last,
        test=asked.test,
        margin=asked.margin,
        seeds=experiment.seeds,
        spare_seeds=experiment.spare_seeds,
        several=asked.several,
        pairing=asked.pairing,
        secondary=asked.secondary,
        control=control or "",
        arms=tuple(RegisteredArm(**asdict(arm)) for arm in experiment.arms),
        also=asked.primary.also,
        kind=asked.kind,
    )
    if not experiment.written:
        return values
    return replace(values, form=FORM, written=experiment.written, sealed=values.content)


def declared_by(registration: Registration) -> DeclaredExperiment:
    """Read a registration as its recipe had it. Raises ValidationError for one that no recipe can have."""
    from rlx.recipe.declared_experiment import DeclaredExperiment
    from rlx.recipe.first_form import DeclaredArm
    from rlx.recipe.schema import Experiment

    at = {MEAN_OF_LAST: registration.validations} if registration.at == MEAN_OF_LAST else registration.at
    section = Experiment.model_validate(
        {
            "question": registration.question,
            "primary": {"metric": registration.metric, "also": registration.also, "at": at},
            "test": registration.test,
            "margin": registration.margin,
            "seeds": len(registration.seeds),
            "spare_seeds": len(registration.spare_seeds),
            "several": registration.several,
            "pairing": registration.pairing,
            "secondary": registration.secondary,
            "kind": registration.kind,
        }
    )
    arms = tuple(DeclaredArm(**asdict(arm)) for arm in registration.arms)
    return DeclaredExperiment(section, min(registration.seeds, default=0), arms, registration.written)
