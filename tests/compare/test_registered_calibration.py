"""The calibration of registered tests in small, with fixed seeds: it holds, and would notice what does not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.few_items import exact_line
from benchmarks.registered import ChoiceLine, DesignLine, choices, design_line, tables
from rlx.compare.registered_design import Claim, Design, MultiplicityCorrection

REPLICATIONS = 4000


@pytest.mark.parametrize("claim", Claim)
@pytest.mark.parametrize("sds", [(1, 1), (1, 4), (1, 1, 1, 1)], ids=str)
def test_false_alarms_coverage_and_power_are_as_promised(claim: Claim, sds: tuple[float, ...]) -> None:
    design = Design(claim, None if claim is Claim.SUPERIORITY else 10.0)
    line = design_line(np.random.default_rng(1), REPLICATIONS, "", design, 5, sds)
    assert not line.errs, str(line)
    assert line.false_alarms > 0.03
    assert not line.power or line.power[0] == pytest.approx(line.power[1], abs=0.02)


def test_dunnett_errs_where_one_arm_spreads_widely_and_that_is_known() -> None:
    line = design_line(np.random.default_rng(1), REPLICATIONS, "", Design(), 5, (1, 4, 1, 1), known=True)
    assert line.errs and not line.broken
    holm = design_line(
        np.random.default_rng(1), REPLICATIONS, "", Design(several=MultiplicityCorrection.HOLM), 5, (1, 4, 1, 1)
    )
    assert not holm.errs


def test_choosing_inflates_and_registering_does_not() -> None:
    lines = list(choices(np.random.default_rng(1), REPLICATIONS))
    assert [line.broken for line in lines] == [False] * 4
    assert all(line.chosen > 0.10 for line in lines)
    assert all(0.03 < line.registered < 0.06 for line in lines)


def test_few_items_are_held_exactly() -> None:
    line = exact_line("", 10)
    assert line.most_alarms < 0.05 and line.most_at_one_percent < 0.01
    assert line.mean_coverage > 0.95 and line.least_coverage > 0.92


@pytest.mark.long
def test_every_table_has_lines_and_marks_what_errs() -> None:
    found = {title: [str(line) for line in lines] for title, _, lines in tables(np.random.default_rng(1), 50)}
    assert len(found) == 8 and min(map(len, found.values())) == 4
    assert DesignLine("", 20_000, 0.95, 0.07, 0.95).broken
    assert DesignLine("", 20_000, 0.95, 0.05, 0.935).broken
    assert not DesignLine("", 20_000, 0.95, 0.07, 0.95, known=True).broken
    assert ChoiceLine("", 20_000, 0.2, 0.07).broken
