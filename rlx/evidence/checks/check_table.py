"""List all checks of a run: every verdict takes its findings from this table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rlx.evidence.checks import (
    adaptive_sigma,
    arm_without_noise,
    attempts,
    completeness,
    interventions,
    item_fractions,
    limits_of_evidence,
    noise_accumulation,
    noise_applied,
    noise_coverage,
    noise_removal,
    noise_response,
    noise_sample,
    noise_settings,
    probability_gap,
    recipe_settings,
    record_agreement,
    record_conflicts,
    recorded_weights,
    served_weights,
    training_on_noise,
    training_signal,
    validation_data,
    validation_scores,
    weight_digests,
)
from rlx.evidence.checks.check_input import Basis, Check, CheckInput
from rlx.evidence.verdict import CheckFinding

_ANY = Basis.PLANNED | Basis.UNPLANNED
# An open log has not ended, and no record of rlx will state its end.
_CLOSED = Basis.PLANNED | Basis.LOG


class CheckRow(NamedTuple):
    """A check, and the runs that it applies to."""

    check: Check
    basis: Basis = Basis.PLANNED


CHECKS = (
    CheckRow(record_conflicts.check_conflicts, Basis.UNPLANNED),
    CheckRow(recipe_settings.check_composed),
    CheckRow(recipe_settings.check_traced, _ANY),
    CheckRow(arm_without_noise.check_unplanned_noise, _ANY),
    CheckRow(limits_of_evidence.check_recipe, Basis.UNPLANNED),
    CheckRow(arm_without_noise.check_watch),
    CheckRow(noise_applied.check_faults_of_forks),
    CheckRow(noise_settings.check),
    CheckRow(noise_applied.check_applied),
    CheckRow(adaptive_sigma.check),
    CheckRow(noise_coverage.check),
    CheckRow(noise_sample.check),
    CheckRow(noise_sample.check_draws),
    CheckRow(limits_of_evidence.check_links),
    CheckRow(noise_applied.check_rounding),
    CheckRow(noise_removal.check_noise_left_in),
    CheckRow(weight_digests.check),
    CheckRow(noise_response.check),
    CheckRow(noise_removal.check_weights_of_validations),
    CheckRow(noise_accumulation.check),
    CheckRow(probability_gap.check),
    CheckRow(served_weights.check),
    CheckRow(recorded_weights.check, Basis.RECIPE),
    CheckRow(training_signal.check, _ANY),
    CheckRow(training_on_noise.check),
    CheckRow(validation_data.check_precision),
    CheckRow(limits_of_evidence.check_grammar),
    CheckRow(completeness.check_generated_batches),
    CheckRow(completeness.check_end, _CLOSED),
    CheckRow(record_conflicts.check_form, _CLOSED),
    CheckRow(completeness.check_whole, _CLOSED),
    CheckRow(validation_scores.check, _ANY),
    CheckRow(validation_data.check_files, Basis.RECIPE),
    CheckRow(item_fractions.check, _CLOSED),
    CheckRow(record_conflicts.check_metrics, _CLOSED),
    CheckRow(record_agreement.check, _ANY),
    CheckRow(record_conflicts.check_conflicts),
    CheckRow(attempts.check, _CLOSED),
    CheckRow(interventions.check, _ANY),
    CheckRow(completeness.check_last_validation, Basis.UNPLANNED),
    CheckRow(validation_data.check_precision, Basis.UNPLANNED),
    CheckRow(limits_of_evidence.check_grammar, Basis.UNPLANNED),
    CheckRow(limits_of_evidence.check_recipe, Basis.NOISE),
)
"""The order of findings of equal severity: causes before their consequences.

A check has two rows where its findings come at another place in the verdict on a run without a plan.
"""


def all_findings(given: CheckInput) -> Iterator[CheckFinding]:
    """Yield the findings of all checks that apply, in the order of the table."""
    for row in CHECKS:
        if given.basis in row.basis:
            yield from row.check(given)
