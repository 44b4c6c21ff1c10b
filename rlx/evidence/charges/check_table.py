"""The table of all checks of a run, from which every verdict takes its charges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rlx.evidence.charges import (
    accumulation,
    applied,
    asked,
    attempts,
    balanced,
    completeness,
    composed_settings,
    conflicting_records,
    contradicting_metrics,
    drawn,
    felt,
    followed,
    fork_faults,
    generated_batches,
    graded,
    item_fractions,
    last_validation,
    lifted,
    missing_recipe,
    perturbations,
    probability_gap,
    reached,
    record_form,
    recorded_weights,
    rounding_loss,
    run_end,
    served,
    shown_links,
    traced_settings,
    trained_on,
    training_as_validation,
    training_signal,
    unplanned_noise,
    unproven_grammar,
    validation_noise,
    validation_precision,
    watched,
    weight_digests,
)
from rlx.evidence.charges.check_input import Basis, Check, CheckInput
from rlx.evidence.verdict import Charge

_ANY = Basis.PLANNED | Basis.UNPLANNED
# An open log has not come to its end, and no record of rlx will say when it does.
_CLOSED = Basis.PLANNED | Basis.LOG


class Row(NamedTuple):
    """A check, and the runs that it applies to."""

    check: Check
    basis: Basis = Basis.PLANNED


CHECKS = (
    Row(conflicting_records.check, Basis.UNPLANNED),
    Row(composed_settings.check),
    Row(traced_settings.check, Basis.RECIPE),
    Row(unplanned_noise.check, _ANY),
    Row(missing_recipe.check, Basis.UNPLANNED),
    Row(watched.check),
    Row(fork_faults.check),
    Row(asked.check),
    Row(applied.check),
    Row(followed.check),
    Row(reached.check),
    Row(drawn.check),
    Row(perturbations.check),
    Row(shown_links.check),
    Row(rounding_loss.check),
    Row(validation_noise.check),
    Row(weight_digests.check),
    Row(felt.check),
    Row(lifted.check),
    Row(accumulation.check),
    Row(probability_gap.check),
    Row(served.check, Basis.RECIPE),
    Row(recorded_weights.check, Basis.RECIPE),
    Row(training_signal.check, _ANY),
    Row(trained_on.check),
    Row(validation_precision.check),
    Row(unproven_grammar.check),
    Row(generated_batches.check),
    Row(run_end.check, _CLOSED),
    Row(record_form.check, _CLOSED),
    Row(completeness.check, _CLOSED),
    Row(graded.check, _ANY),
    Row(training_as_validation.check, Basis.RECIPE),
    Row(item_fractions.check, _CLOSED),
    Row(contradicting_metrics.check, _CLOSED),
    Row(balanced.check, _ANY),
    Row(conflicting_records.check),
    Row(attempts.check, _CLOSED),
    Row(last_validation.check, Basis.UNPLANNED),
    Row(validation_precision.check, Basis.UNPLANNED),
    Row(unproven_grammar.check, Basis.UNPLANNED),
    Row(missing_recipe.check, Basis.NOISE),
)
"""The order of findings of one weight: causes before their consequences.

A check has two rows where its findings come at another place in the verdict on a run of which nothing was planned.
"""


def all_charges(given: CheckInput) -> Iterator[Charge]:
    """Yield the charges of all checks that apply, in the order of the table."""
    for row in CHECKS:
        if given.basis in row.basis:
            yield from row.check(given)
