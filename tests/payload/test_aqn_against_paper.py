"""The noise held against QeRL's description, written down here a second time and without a look at rlx's own.

Huang et al., "QeRL: Beyond Efficiency - Quantization-enhanced Reinforcement Learning for LLMs" (arXiv 2510.11696),
adaptive quantisation noise: Gaussian noise of standard deviation sigma on the weights of RMSNorm. Training is cut into
K stages of equal length, the first without noise. Over the N = K - 1 that are left sigma decays exponentially:
sigma(k) = sigma_start * (sigma_end / sigma_start)^((k - 1) / (N - 1)) for k = 1 … N.
"""

from __future__ import annotations

import copy
from fractions import Fraction
from itertools import product
from math import exp, log
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from rlx_aqn import Injector  # noqa: E402
from rlx_aqn_noise import stable_seed, standard_noise  # noqa: E402
from rlx_aqn_settings import InjectionSettings  # noqa: E402

from tests.payload.models import dense, moved, weights  # noqa: E402

TOTALS, STAGES = (3, 10, 29, 58, 116, 1000), (3, 4, 5, 10, 11, 29)
RANGES = ((0.05, 0.0005), (0.01, 0.0001), (0.02, 0.02), (1.0, 1e-6))


def paper_sigma(step: int, total: int, stages: int, start: float, end: float) -> float:
    """Sigma while step `step` of `total`, counted from 1, is generated."""
    borders = [Fraction(total * stage, stages) for stage in range(stages + 1)]
    stage = next(k for k in range(stages) if borders[k] <= step - 1 < borders[k + 1])
    if stage == 0:
        return 0.0
    noisy = stages - 1
    return exp(log(start) + (log(end) - log(start)) * (stage - 1) / (noisy - 1))


@pytest.mark.parametrize(("total", "stages", "between"), list(product(TOTALS, STAGES, RANGES)))
def test_schedule(total: int, stages: int, between: tuple[float, float]) -> None:
    settings = InjectionSettings(*between, stages, total)
    for step in range(1, total + 1):
        assert settings.sigma(step) == pytest.approx(paper_sigma(step, total, stages, *between), rel=1e-9), step


def test_the_numbers_of_a_known_run() -> None:
    """T 29, K 10, 0.05 to 0.0005: as the fork's own function gave them when it was run (zhshgmail/verl cfb21db5)."""
    settings = InjectionSettings(0.05, 0.0005, 10, 29)
    sigmas = list(dict.fromkeys(settings.sigma(step) for step in range(1, 30)))
    known = [0, 0.05, 0.0281, 0.0158, 0.00889, 0.005, 0.00281, 0.00158, 0.00089, 0.0005]
    assert sigmas == pytest.approx(known, rel=5e-3)


def injector(tmp_path: Path, **changes: object) -> Injector:
    settings = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 5, "total_steps": 5000, "seed": 1, **changes}
    return Injector(InjectionSettings(**settings), tmp_path / "events.jsonl")


class RMSNorm(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(width), requires_grad=False)


class TestDistribution:
    """Kolmogorov-Smirnov at 1 %, on fixed seeds: the answer is the same each time."""

    def test_one_large_weight_is_normal(self, tmp_path: Path) -> None:
        from scipy import stats

        model = torch.nn.ModuleDict({"norm": RMSNorm(200_000)})
        sigma = injector(tmp_path).apply(model, 2500).sigma
        assert stats.kstest(model.norm.weight.numpy() / sigma, "norm").pvalue > 0.01

    def test_steps_replicas_seeds_and_names_are_independent_draws(self) -> None:
        """1,000 small noises together are normal, and neighbours do not correlate."""
        from scipy import stats

        parts = [(seed, replica, step, name) for seed in (0, 1) for replica in range(5) for step in range(25)
                 for name in ("a.weight", "b.weight", "c.weight", "d.weight")]  # fmt: skip
        drawn = torch.stack([standard_noise(torch.Size([64]), stable_seed(*part)) for part in parts])
        assert stats.kstest(drawn.flatten().numpy(), "norm").pvalue > 0.01
        correlation = float((drawn[1:] * drawn[:-1]).mean())
        assert abs(correlation) < 4 / (drawn[1:].numel() ** 0.5)

    def test_a_wrong_distribution_would_be_noticed(self) -> None:
        from scipy import stats

        noise = standard_noise(torch.Size([200_000]), 1).numpy()
        assert stats.kstest(1.02 * noise, "norm").pvalue < 0.01


class TestIndependenceOfOrder:
    def test_other_layers_first_change_nothing(self, tmp_path: Path) -> None:
        def noised(names: list[str]) -> dict[str, torch.Tensor]:
            model = torch.nn.ModuleDict({name: RMSNorm(32) for name in names})
            injector(tmp_path).apply(model, 2500)
            return {name: model[name].weight for name in names}

        forwards, backwards, alone = noised(["a", "b", "c"]), noised(["c", "b", "a"]), noised(["b"])
        assert all(torch.equal(forwards[name], backwards[name]) for name in "abc")
        assert torch.equal(forwards["b"], alone["b"])

    def test_what_else_is_drawn_changes_nothing(self) -> None:
        torch.manual_seed(1)
        one = standard_noise(torch.Size([32]), 5)
        torch.randn(7)
        assert torch.equal(one, standard_noise(torch.Size([32]), 5))


class TestRemoval:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
    def test_is_exact_bit_by_bit(self, dtype: torch.dtype, tmp_path: Path) -> None:
        """Zeros of both signs, the smallest and the largest numbers, and what is no number."""
        limits = torch.finfo(dtype)
        odd = [0.0, -0.0, limits.tiny, -limits.tiny, limits.max, float("inf"), float("nan"), 1.0]
        model = torch.nn.ModuleDict({"norm": RMSNorm(8)})
        model.norm.weight = torch.nn.Parameter(torch.tensor(odd, dtype=dtype), requires_grad=False)
        before = model.norm.weight.clone().view(torch.uint8)
        noise = injector(tmp_path)
        noise.apply(model, 2500)
        assert not torch.equal(model.norm.weight.view(torch.uint8), before)
        assert noise.restore() == 1
        assert torch.equal(model.norm.weight.view(torch.uint8), before)
        assert noise.restore() == 0

    def test_weights_made_by_an_engine_in_inference_mode(self, tmp_path: Path) -> None:
        with torch.inference_mode():
            model = torch.nn.ModuleDict({"norm": RMSNorm(8)})
        noise = injector(tmp_path)
        noise.apply(model, 2500)
        noise.restore()
        assert not model.norm.weight.any()


class TestManySyncs:
    def test_of_adapters_accumulate_nothing(self, tmp_path: Path) -> None:
        """A LoRA sync brings adapters and leaves the base as it is, noise and all: 1,000 of them."""
        model, noise = dense().bfloat16(), injector(tmp_path)
        model.adapter = torch.nn.Linear(4, 4)
        clean = weights(model)
        for step in range(1, 1001):
            torch.nn.init.constant_(model.adapter.weight, step)
            noise.apply(model, 1000 + step)
        once = copy.deepcopy(dense().bfloat16())
        once.load_state_dict({name: clean[name] for name in once.state_dict()})
        injector(tmp_path).apply(once, 2000)
        assert all(torch.equal(model.state_dict()[name], weight) for name, weight in once.state_dict().items())
        noise.restore()
        assert moved(model, clean) == {"adapter.weight"}

    @pytest.mark.long
    def test_that_replace_some_weights_keep_the_new_ones(self, tmp_path: Path) -> None:
        model, noise = dense(), injector(tmp_path)
        clean = weights(model)
        for step in range(1, 101):
            torch.nn.init.constant_(model.model.norm.weight, 1 + step)
            noise.apply(model, 2000 + step)
        noise.restore()
        assert moved(model, clean) == {"model.norm.weight"}
        assert bool((model.model.norm.weight == 101).all())

    def test_that_write_half_of_a_weight_find_it_clean(self, tmp_path: Path) -> None:
        """An engine fuses q, k and v: one of them may arrive alone. So the noise leaves before the sync."""
        model, noise = torch.nn.ModuleDict({"norm": RMSNorm(8)}), injector(tmp_path)
        for step in range(1, 101):
            noise.restore()
            with torch.inference_mode():
                model.norm.weight[:4] = step
            noise.apply(model, 2000 + step)
        noise.restore()
        assert model.norm.weight.tolist() == [100.0] * 4 + [0.0] * 4
