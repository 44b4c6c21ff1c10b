"""The words of a further attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.retrying import Retried


def retried_lines(one: Retried) -> Iterator[str]:
    """Say which attempt goes on from where, and which checkpoints it could not go on from."""
    if one.lineage is None:
        yield f"rlx: {one.ref.run_id}: attempt {one.attempt} is under way already; nothing was begun"
        return
    step, checkpoint = one.lineage.step, one.lineage.checkpoint
    where = f"goes on from the checkpoint of step {step} ({checkpoint})" if checkpoint else "begins anew"
    yield f"rlx: {one.ref.run_id}: attempt {one.attempt} {where}"
    for each in one.lineage.passed_over:
        yield f"rlx: {one.ref.run_id}: no checkpoint to go on from: {each}"


def retried_document(one: Retried) -> dict[str, Any]:
    lineage = one.lineage
    return {
        "run_id": one.ref.run_id,
        "attempt": one.attempt,
        "begun": one.is_new,
        "step": lineage.step if lineage else None,
        "checkpoint": lineage.checkpoint or None if lineage else None,
        "passed_over": list(lineage.passed_over) if lineage else [],
    }
