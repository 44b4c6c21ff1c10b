"""The CPU rollout's sampler: distributions, restrictions, batching."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from rlx_verl_cpu_sampling import SamplingRequest, draw, restrict, sample  # noqa: E402

LOGITS = torch.log(torch.tensor([[0.4, 0.3, 0.2, 0.1]]))


def kept(top_k: int, top_p: float) -> list[int]:
    limited = restrict(LOGITS, torch.tensor([top_k]), torch.tensor([top_p]))
    return torch.isfinite(limited[0]).nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [
        (-1, 1.0, [0, 1, 2, 3]),
        (1, 1.0, [0]),
        (3, 1.0, [0, 1, 2]),
        (9, 1.0, [0, 1, 2, 3]),
        (-1, 0.35, [0]),
        (-1, 0.65, [0, 1]),
        (-1, 0.0, [0]),
        # After top_k=2 the rest is 4/7 and 3/7, so that 0.6 needs both.
        (2, 0.6, [0, 1]),
        (2, 0.5, [0]),
    ],
)
def test_restrictions_keep_the_right_tokens(top_k: int, top_p: float, expected: list[int]) -> None:
    assert kept(top_k, top_p) == expected


def test_restriction_is_per_row() -> None:
    limited = restrict(LOGITS.repeat(2, 1), torch.tensor([1, -1]), torch.tensor([1.0, 0.65]))
    assert torch.isfinite(limited).sum(-1).tolist() == [1, 2]


def test_ties_do_not_exceed_top_k() -> None:
    limited = restrict(torch.zeros(1, 6), torch.tensor([2]), torch.tensor([1.0]))
    assert int(torch.isfinite(limited).sum()) == 2


def test_draws_follow_the_distribution_and_never_hit_a_removed_token() -> None:
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    log_probs = restrict(LOGITS, torch.tensor([3]), torch.tensor([1.0])).log_softmax(-1).expand(len(uniform), -1)
    shares = torch.bincount(draw(log_probs, uniform), minlength=4) / len(uniform)
    assert shares.tolist() == pytest.approx([4 / 9, 3 / 9, 2 / 9, 0], abs=0.015)
    assert shares[3] == 0


def test_the_largest_draw_stays_inside_the_vocabulary() -> None:
    almost_one = torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert draw(LOGITS.log_softmax(-1), almost_one).tolist() == [3]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    """A real, random Qwen2 of two layers."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval()


class TestModel:
    @staticmethod
    def requests() -> list[SamplingRequest]:
        prompts = [(5, 6, 7), (5, 6, 7), (9, 8), (1, 2, 3, 4)]
        return [SamplingRequest(prompt, seed=number, max_tokens=6) for number, prompt in enumerate(prompts)]

    def test_batch_and_order_do_not_change_an_answer(self, model) -> None:
        together = sample(model, self.requests(), frozenset({0}))
        alone = [sample(model, [request], frozenset({0}))[0] for request in reversed(self.requests())][::-1]
        assert [answer.tokens for answer in together] == [answer.tokens for answer in alone]

    def test_another_seed_gives_another_answer(self, model) -> None:
        first, second, *_ = sample(model, self.requests(), frozenset())
        assert first.tokens != second.tokens

    def test_log_probs_are_the_model_s(self, model) -> None:
        request = self.requests()[2]
        answer = sample(model, [request], frozenset())[0]
        text = torch.tensor([[*request.prompt, *answer.tokens]])
        with torch.no_grad():
            expected = model(text).logits[0, 1:-1].log_softmax(-1)
        exact = expected.gather(1, torch.tensor(answer.tokens)[:, None])[:, 0].tolist()
        assert answer.log_probs == pytest.approx(exact, abs=1e-5)

    def test_temperature_zero_is_greedy(self, model) -> None:
        request = SamplingRequest((5, 6, 7), seed=1, max_tokens=4, temperature=0.0)
        answer = sample(model, [request, self.requests()[0]], frozenset())[0]
        text = list(request.prompt)
        for token in answer.tokens:
            with torch.no_grad():
                assert token == int(model(torch.tensor([text])).logits[0, -1].argmax())
            text.append(token)

    def test_answers_end_with_the_end_token_or_at_their_limit(self, model) -> None:
        free = sample(model, self.requests(), frozenset())[0].tokens
        requests = [self.requests()[0], SamplingRequest((5, 6, 7), seed=0, max_tokens=1)]
        ended, limited = sample(model, requests, frozenset({free[2]}))
        assert ended.tokens == free[: free.index(free[2]) + 1]
        assert limited.tokens == free[:1]
