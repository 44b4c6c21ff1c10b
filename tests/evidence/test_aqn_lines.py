from __future__ import annotations

import pytest

from rlx.evidence import NoiseEvent
from rlx.evidence.aqn_lines import WORDINGS, Context, Wording, read_aqn_line


def comparable(said: Context | NoiseEvent | None) -> object:
    """NaN, the sigma of a line that does not say it, is not equal to itself."""
    return (said.step, said.layers, said.kind, said.sigma != said.sigma) if isinstance(said, NoiseEvent) else said


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: wording.sample[:60])
def test_each_wording_means_what_its_row_says(wording: Wording) -> None:
    prefixed = f"(WorkerDict pid=12) {wording.sample} [repeated 7x across cluster]"
    assert comparable(read_aqn_line(wording.sample)) == comparable(wording.means)
    assert comparable(read_aqn_line(prefixed)) == comparable(wording.means)


def test_a_schedule_that_divides_by_zero_is_not_a_sigma() -> None:
    """Two stages make QeRL's formula 0/0; the fork then prints `nan`."""
    said = read_aqn_line("[AQN] Noise injection (Dense) - Step: 9/20, Sigma ID: 0, Sigma: nan, Target: ALL")
    assert isinstance(said, Context) and said.sigma != said.sigma


def test_a_torn_number_is_nothing() -> None:
    assert read_aqn_line("[AQN] Noise injection - Step: 9/20, Sigma ID: 0, Sigma: e-.5.") is None
