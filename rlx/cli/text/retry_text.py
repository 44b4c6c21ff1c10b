"""A further attempt as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.retrying import Retried


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
