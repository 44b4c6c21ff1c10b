"""Say before a launch by what its settings will be shown, and which cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.composed_settings import tree_of
from rlx.evidence.charges.traced_settings import is_noise
from rlx.evidence.grammars import by_kind
from rlx.evidence.modes import named
from rlx.evidence.traces import KeyTrace, Shown
from rlx.model import LaunchPlan


def promised_traces(plan: LaunchPlan) -> Iterator[KeyTrace]:
    """Yield the traces of the treatment, or of an arm without one those of all settings that leave any.

    Noise is promised elsewhere. Nothing for a plan without a recipe, or of a back-end without such a table.
    """
    grammar = by_kind().get(plan.backend)
    if grammar is None or not plan.has_recipe:
        return
    modes = frozenset(grammar.modes(tree_of(grammar.planned_settings(plan.command, plan.recipe))))
    treatment = [key for key in plan.treatment if not is_noise(key)]
    usual = (key for row in grammar.traces for key in row.keys if not key.startswith("overrides."))
    for key in treatment or usual:
        row = next((row for row in grammar.traces if row.is_of(key)), None)
        if row is None:
            yield KeyTrace(key, Shown.COMPOSED)
        elif outside := named(modes - row.modes):
            yield KeyTrace(key, Shown.NOT_OBSERVABLE, row.by, outside)
        else:
            yield KeyTrace(key, Shown.SHOWN, row.by)
