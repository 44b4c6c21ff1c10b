"""Convert the experiment that a recipe declares to the registration in its plans, and back."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rlx.model.registration import FORM, MEAN_OF_LAST, RegisteredArm, Registration

if TYPE_CHECKING:
    from rlx.recipe.declared_experiment import DeclaredExperiment


def registration_of(name: str, control: str | None, experiment: DeclaredExperiment | None) -> Registration | None:
    """Register the question of the recipe of that name; None if it has none."""
    if experiment is None:
        return None
    section = experiment.section
    moment = section.primary.at
    values = Registration(
        name=name,
        question=section.question,
        metric=section.primary.metric,
        at=moment if isinstance(moment, str) else MEAN_OF_LAST,
        validations=1 if isinstance(moment, str) else moment.mean_of_last,
        test=section.test,
        margin=section.margin,
        seeds=experiment.seeds,
        spare_seeds=experiment.spare_seeds,
        several=section.several,
        pairing=section.pairing,
        secondary=section.secondary,
        control=control or "",
        arms=tuple(RegisteredArm(**asdict(arm)) for arm in experiment.arms),
        also=section.primary.also,
        kind=section.kind,
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
