"""Hold the batches that each step generated against the plan: what DAPO logs, and no other trainer."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.promised_noise import training_steps
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import finite, metric_of, series
from rlx.evidence.verdict import Charge, at_steps, counted, unverified


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge steps that say nothing of their batches, or were filled with fewer or more than can be."""
    evidence, promised = given.evidence, given.expectations.batches
    if promised is None:
        return
    name = metric_of(evidence, Role.GENERATED_BATCHES)
    generated = finite(series(evidence, name))
    if silent := [step for step in training_steps(evidence) if step not in generated]:
        yield unverified(
            "RLX725",
            f"{name or 'the number of batches'} is not logged at {counted(len(silent), 'step')}, "
            "so another trainer than DAPO's may have run",
            "which program did the log start with, and does backend.trainer name it?",
            silent[0],
        )
    if beyond := [step for step, batches in generated.items() if batches not in promised]:
        yield unverified(
            "RLX726",
            f"{generated[beyond[0]]:g} batches were generated at {at_steps(beyond)}, and the plan says {promised}",
            "was data.gen_batch_size, the batch size or max_num_gen_batches another?",
            beyond[0],
        )
