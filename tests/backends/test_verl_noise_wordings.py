from __future__ import annotations

import pytest

from rlx.backends.verl.log.fork_noise import WORDINGS, Wording
from rlx.evidence import NoiseEvent
from rlx.evidence.log_grammar import Context, NoiseSays
from rlx.evidence.reading.console import read_aqn_line


def comparable(said: NoiseSays | None) -> object:
    """NaN, the sigma of a line that does not say it, is not equal to itself."""
    if isinstance(said, NoiseEvent):
        return said.step, said.layers, said.kind, said.per_layer, said.sigma != said.sigma
    return said


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: wording.sample[:60])
def test_each_wording_means_what_its_row_says(wording: Wording) -> None:
    prefixed = f"(WorkerDict pid=12) {wording.sample} [repeated 7x across cluster]"
    assert comparable(read_aqn_line(wording.sample)) == comparable(wording.means)
    assert comparable(read_aqn_line(prefixed)) == comparable(wording.means)


APPLIED = "[AQN] Applied noise to 57 RMSNorm layers (skipped 0 excluded layers)"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "(WorkerDict pid=12, ip=10.0.0.1) ",
        "INFO:2026-01-12 17:19:00,123:",
        "(WorkerDict pid=12) WARNING:verl.utils.noise_injection:",
        "INFO 01-12 17:19:00 noise_injection.py:390] ",
        "Training Progress:  5%|   | 1/20 [00:02<00:44, 2.35s/it]",
    ],
)
def test_what_may_stand_before_a_line(before: str) -> None:
    assert isinstance(read_aqn_line(before + APPLIED), NoiseEvent)


@pytest.mark.parametrize("line", [f"'{APPLIED}'", f"I looked for {APPLIED}", f"`{APPLIED}`", APPLIED[:42]])
def test_who_tells_of_a_line_has_not_said_it(line: str) -> None:
    assert read_aqn_line(line) is None


def test_lines_that_ray_folded_are_known() -> None:
    said = read_aqn_line(f"(WorkerDict pid=12) {APPLIED} [repeated 7x across cluster]")
    assert isinstance(said, NoiseEvent) and said.folded


def test_a_schedule_that_divides_by_zero_is_not_a_sigma() -> None:
    """Two stages make QeRL's formula 0/0; the fork then prints `nan`."""
    said = read_aqn_line("[AQN] Noise injection (Dense) - Step: 9/20, Sigma ID: 0, Sigma: nan, Target: ALL")
    assert isinstance(said, Context) and said.sigma != said.sigma


def test_a_torn_number_is_nothing() -> None:
    assert read_aqn_line("[AQN] Noise injection - Step: 9/20, Sigma ID: 0, Sigma: e-.5.") is None
