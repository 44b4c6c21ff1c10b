"""What rounding leaves of a noise: the formula against what torch measures, and against numbers that stand written."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.model.rounding import DTYPES, TYPICAL, std_band, survival

# torch 2.13, noise drawn in float32, cast, added in bfloat16 to 200,000 weights around w: share of elements changed and
# effective sigma. Recorded before the formula was written.
MEASURED = {
    (5e-2, 0.3): (0.98, 5.0e-2), (5e-2, 1.0): (0.95, 5.0e-2), (5e-2, 1.5): (0.94, 5.0e-2), (5e-2, 3.0): (0.88, 5.0e-2),
    (5e-2, 8.0): (0.65, 5.2e-2), (1e-2, 0.3): (0.92, 1.0e-2), (1e-2, 1.0): (0.77, 1.0e-2), (1e-2, 1.5): (0.70, 1.0e-2),
    (1e-2, 3.0): (0.43, 1.1e-2), (1e-2, 8.0): (0.06, 7.8e-3), (1e-3, 0.3): (0.34, 1.1e-3), (1e-3, 1.0): (0.025, 6e-4),
    (1e-3, 3.0): (0, 0), (1e-3, 8.0): (0, 0), (5e-4, 0.3): (0.065, 4.5e-4), (5e-4, 1.5): (0, 0), (1e-4, 0.3): (0, 0),
}  # fmt: skip


def around(weight: float, count: int = 2000) -> dict[float, int]:
    """Weights with a standard deviation of a tenth of their mean, as in the measurement."""
    torch = pytest.importorskip("torch")
    spread = weight + 0.1 * weight * torch.randn(count, generator=torch.Generator().manual_seed(0))
    return Counter(spread.bfloat16().tolist())


@pytest.mark.parametrize(("sigma", "weight"), list(MEASURED))
def test_bfloat16_as_measured(sigma: float, weight: float) -> None:
    share, std = MEASURED[sigma, weight]
    found = survival(sigma, "bfloat16", around(weight))
    assert found.changed == pytest.approx(share, abs=0.02)
    assert found.std == pytest.approx(std, rel=0.07, abs=2e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sigma", [3e-2, 2e-3, 3e-5])
@pytest.mark.parametrize("weight", [1.0, 0.02, -1.7, 0.0, 6.0])
def test_every_dtype_as_torch_does_it(dtype: str, sigma: float, weight: float) -> None:
    torch = pytest.importorskip("torch")
    clean = torch.full((200_000,), weight).to(getattr(torch, dtype))
    noise = sigma * torch.randn(200_000, generator=torch.Generator().manual_seed(3))
    change = (clean.double() + noise.double()).to(clean.dtype).double() - clean.double()
    found = survival(sigma, dtype, {float(clean[0]): 1})
    assert found.changed == pytest.approx(float((change != 0).double().mean()), abs=5e-3)
    assert found.std == pytest.approx(float(change.square().mean().sqrt()), rel=0.05, abs=1e-6)


@given(st.sampled_from(DTYPES), st.floats(1e-6, 1), st.floats(-100, 100))
def test_never_more_than_all_and_more_noise_changes_more(dtype: str, sigma: float, weight: float) -> None:
    weak, strong = survival(sigma, dtype, {weight: 1}), survival(2 * sigma, dtype, {weight: 1})
    assert 0 <= weak.changed <= strong.changed <= 1
    assert 0 <= weak.std <= strong.std


def test_norms_in_bfloat16_lose_the_end_of_the_usual_schedule() -> None:
    norm = {TYPICAL["rmsnorm"]: 1}
    lost = [sigma for sigma in (1e-2, 1e-3, 5e-4, 1e-4) if survival(sigma, "bfloat16", norm).changed < 0.01]
    assert lost == [5e-4, 1e-4]


def test_counts_weigh() -> None:
    one, other = survival(1e-3, "bfloat16", {0.3: 1}), survival(1e-3, "bfloat16", {3.0: 1})
    both = survival(1e-3, "bfloat16", {0.3: 3, 3.0: 1})
    assert both.changed == pytest.approx((3 * one.changed + other.changed) / 4)


BINS = [x / 100 for x in range(5, 1200)]


def test_the_worst_weights_of_the_band_are_the_worst() -> None:
    """Of weights with a gap of x standard deviations: mean square and fourth moment of the move, against the share."""
    shares = {x: math.erfc(x / 2 / math.sqrt(2)) for x in BINS}
    square = {x: _moment(x, 2) for x in BINS}
    fourth = {x: _moment(x, 4) for x in BINS}
    assert all(square[x] >= shares[x] for x in BINS)
    assert max((square[x] - 1) / (1 - shares[x]) for x in BINS) <= 0.45
    assert max((fourth[x] - 3) / (1 - shares[x]) for x in BINS) <= 9.81


def _moment(gap: float, power: int) -> float:
    """The mean power of a standard normal number that is rounded to multiples of `gap`."""
    most = int(8 / gap) + 2
    beyond = [math.erfc((k - 0.5) * gap / math.sqrt(2)) for k in range(1, most + 1)]
    return gap**power * sum((k**power - (k - 1) ** power) * beyond[k - 1] for k in range(1, most + 1))


@pytest.mark.parametrize("weight", [1.0, 1.5, 7.0])
@pytest.mark.parametrize("sigma", [0.05, 0.003, 0.0007])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_noise_that_was_drawn_lies_in_its_band(dtype: str, sigma: float, weight: float) -> None:
    torch = pytest.importorskip("torch")
    clean = torch.full((4000, 64), weight).to(getattr(torch, dtype))
    noise = sigma * torch.randn(4000, 64, generator=torch.Generator().manual_seed(5))
    moved = (clean.double() + noise.double()).to(clean.dtype).double() - clean.double()
    for std, changed in zip(moved.square().mean(1).sqrt().tolist(), (moved != 0).sum(1).tolist(), strict=True):
        assert std_band(sigma, 64, changed, dtype).holds(std)


def test_other_noise_lies_outside_of_the_band() -> None:
    in_float32 = std_band(0.05, 320, 320, "float32")
    assert in_float32 == pytest.approx((0.0406, 0.0599), rel=1e-3)
    assert not any(map(in_float32.holds, (0.5, 0.05 * math.sqrt(2), 0.05 / math.sqrt(2), 0.005, math.nan, math.inf)))
    in_bfloat16 = std_band(0.05, 87_552, 83_000, "bfloat16")
    assert in_bfloat16.holds(0.05) and not in_bfloat16.holds(0.052) and not in_bfloat16.holds(0.047)
    # What rounding takes is no other noise.
    assert std_band(0.0005, 87_552, 4, "bfloat16").holds(2.7e-5)
    # float32 loses nothing, so that noise on a few weights is none that was rounded.
    assert not std_band(0.05, 320, 3, "float32").holds(0.005)
