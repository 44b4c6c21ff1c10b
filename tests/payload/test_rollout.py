"""The CPU rollout's server as its callers see it: phases, weights, and answers that do not depend on the timing."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

PROMPTS = [(5, 6, 7), (5, 6, 7), (9, 8), (1, 2, 3, 4), (5, 6, 7), (9, 8)]
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}


@pytest.fixture(scope="module")
def rollout() -> Iterator[ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl's and ray's own, on import
        pytest.importorskip("verl")
        import rlx_verl_cpu_rollout

        yield rlx_verl_cpu_rollout


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    config = Qwen2Config(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True, eos_token_id=0,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def make_server(rollout: ModuleType, model_folder: Path) -> Any:
    def make(seed: int = 1, dtype: str = "float32") -> Any:
        config = SimpleNamespace(dtype=dtype, seed=seed, prompt_length=8, response_length=6, max_num_seqs=64)
        settings = SimpleNamespace(local_path=str(model_folder), generation_config=None)
        server = rollout.CPUServer(config, settings, replica_rank=0)
        asyncio.run(server.load_weights(saved_weights(model_folder), 0))
        return server

    return make


@pytest.fixture
def aqn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with noise from step 2 on, on a machine however busy; returns its folder of events."""
    monkeypatch.setattr("rlx_aqn_probe.LIMIT_S", 60)
    monkeypatch.setenv("RLX_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("RLX_ATTEMPT_DIR", str(tmp_path / "attempts/1"))
    (tmp_path / "payload").mkdir()
    settings = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 3, "total_steps": 3, "seed": 1}
    (tmp_path / "payload" / "aqn.json").write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path / "attempts/1/events"


def events(folder: Path) -> list[tuple[str, int, float]]:
    (file,) = folder.glob("aqn-*")
    lines = [line for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if line["kind"] == "noise"]
    return [(line["phase"], line["step"], line["sigma"]) for line in lines]


def saved_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Weights as verl streams them: without the tied output head."""
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def trained(server: Any) -> dict[str, torch.Tensor]:
    state = {name: weight + 0.01 for name, weight in server._model.state_dict().items()}
    state.pop("lm_head.weight")
    return state


async def answers(server: Any, order: list[int]) -> dict[int, list[int]]:
    async def ask(index: int) -> list[int]:
        # Requests trickle in, so that several batches form.
        await asyncio.sleep(0.03 * random.random())
        return (await server.generate(PROMPTS[index], SAMPLING, request_id=str(random.random()))).token_ids

    return dict(zip(order, await asyncio.gather(*(ask(index) for index in order)), strict=True))


def by_prompt(answered: dict[int, list[int]]) -> list[tuple[tuple[int, ...], list[list[int]]]]:
    return [
        (prompt, sorted(answered[i] for i, p in enumerate(PROMPTS) if p == prompt)) for prompt in sorted({*PROMPTS})
    ]


def test_answers_depend_on_seed_and_step_and_not_on_arrival(make_server: Any) -> None:
    first = by_prompt(asyncio.run(answers(make_server(), [0, 1, 2, 3, 4, 5])))
    again = by_prompt(asyncio.run(answers(make_server(), [5, 3, 1, 0, 2, 4])))
    other = by_prompt(asyncio.run(answers(make_server(seed=2), [0, 1, 2, 3, 4, 5])))
    assert first == again
    assert first != other
    assert len({tuple(tokens) for tokens in first[1][1]}) > 1, "the answers to one prompt are not all the same"


def test_another_step_draws_anew(make_server: Any) -> None:
    server = make_server()

    async def two_steps() -> list[Any]:
        before = by_prompt(await answers(server, [0, 1, 2, 3, 4, 5]))
        await server.enter("rollout", 2)
        return [before, by_prompt(await answers(server, [0, 1, 2, 3, 4, 5]))]

    before, after = asyncio.run(two_steps())
    assert before != after


def test_a_sync_after_step_s_serves_step_s_plus_1_and_validation_is_clean(make_server: Any, aqn: Path) -> None:
    new_server = make_server()

    async def life() -> Any:
        server = new_server
        clean = trained(server)
        await server.load_weights(clean, 0)
        await server.enter("validation", 0)
        await server.enter("rollout", 1)
        await server.load_weights(clean, 1)
        noisy = copy.deepcopy(server._model.state_dict())
        await server.enter("validation", 1)
        validated = copy.deepcopy(server._model.state_dict())
        await server.load_weights(clean, None)  # a sync inside the validation
        await server.enter("rollout", 2)
        return clean, noisy, validated, copy.deepcopy(server._model.state_dict())

    clean, noisy, validated, after = asyncio.run(life())
    assert events(aqn) == [
        ("rollout", 1, 0.0), ("rollout", 1, 0.0), ("validation", 0, 0.0), ("rollout", 1, 0.0), ("rollout", 2, 0.05),
        ("validation", 1, 0.0), ("validation", 1, 0.0), ("rollout", 2, 0.05),
    ]  # fmt: skip
    assert all(torch.equal(validated[name], clean[name]) for name in clean)
    assert all(torch.equal(noisy[name], after[name]) for name in clean)
    assert {name for name in clean if not torch.equal(noisy[name], clean[name])} == {n for n in clean if "norm" in n}


def probes(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("aqn-*")
    return [line for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if line["kind"] == "probe"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_probe_sees_the_noise_of_each_step_and_nothing_else(make_server: Any, aqn: Path, dtype: str) -> None:
    server = make_server(dtype=dtype)
    state = trained(server)

    async def life() -> None:
        for step in (0, 1, 2):
            await server.load_weights(state, step)
            await server.enter("validation", step)
            await server.enter("rollout", step + 1)

    asyncio.run(life())
    seen = probes(aqn)[1:]  # the first is of the server's own start
    assert [(line["phase"], line["step"]) for line in seen] == [
        place for step in (0, 1, 2) for place in (("rollout", step + 1), ("validation", step), ("rollout", step + 1))
    ]
    assert all((line["floor"], line["tokens"], line["missing"]) == (0.0, 4 * 12, "") for line in seen)
    # In bfloat16 the noise of the last step, 0.0005 on weights of 1, changes none of them.
    felt = [line["step"] == 2 or (line["step"] == 3 and dtype == "float32") for line in seen]
    assert [line["delta"] > 0 for line in seen] == [
        expected and line["phase"] == "rollout" for expected, line in zip(felt, seen, strict=True)
    ]
    assert [line["delta"] for line in seen[::3]] == [line["delta"] for line in seen[2::3]], "back from a validation"


def test_the_probe_asks_for_tokens_that_users_could_send(make_server: Any, aqn: Path) -> None:
    asked: list[list[int]] = []
    server = make_server()

    async def score(row: list[int]) -> Any:
        asked.append(row)
        return row, [0.0] * (len(row) - 1)

    server._probe._score = score
    asyncio.run(server.load_weights(trained(server), 1))
    assert {len(row) for row in asked} == {8 + 6 - 1}
    assert all(0 < token < 50 for row in asked for token in row), "0 ends an answer"


def test_the_probe_changes_no_answer(make_server: Any, aqn: Path) -> None:
    async def nothing(*_: Any) -> None:
        pass

    def answered(probe: bool) -> Any:
        server = make_server()
        if not probe:
            server._probe.clean = server._probe.pair = nothing
        torch.manual_seed(1)
        before = torch.get_rng_state()
        asyncio.run(server.load_weights(trained(server), 1))
        assert torch.equal(torch.get_rng_state(), before)
        return by_prompt(asyncio.run(answers(server, [0, 1, 2, 3, 4, 5])))

    assert answered(probe=True) == answered(probe=False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_arm_that_is_watched_answers_as_one_that_is_not(
    make_server: Any, aqn: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = aqn.parents[2] / "payload/aqn.json"
    watch = {"sigma_start": 0.0, "sigma_end": 0.0, "schedule": "constant"}
    settings.write_text(json.dumps({**json.loads(settings.read_text(encoding="utf-8")), **watch}), encoding="utf-8")

    async def life(server: Any) -> Any:
        answered = []
        for step in (0, 1, 2):
            await server.load_weights(trained(server), step)
            await server.enter("validation", step)
            answered.append(by_prompt(await answers(server, [0, 1, 2, 3, 4, 5])))
            await server.enter("rollout", step + 1)
            answered.append(by_prompt(await answers(server, [0, 1, 2, 3, 4, 5])))
        return answered, server._model.state_dict()

    watched, seen = asyncio.run(life(make_server(dtype=dtype)))
    settings.unlink()
    alone, unseen = asyncio.run(life(make_server(dtype=dtype)))
    assert watched == alone
    assert all(torch.equal(seen[name], unseen[name]) for name in seen)
    looks = probes(aqn)
    assert len(looks) == 1 + 3 * 3 and all((look["delta"], look["floor"]) == (0.0, 0.0) for look in looks)


def test_a_row_scores_as_the_same_tokens_did_when_they_were_sampled(rollout: ModuleType, make_server: Any) -> None:
    server = make_server()
    answer = asyncio.run(server.generate(PROMPTS[0], SAMPLING, request_id="x"))
    scored = rollout.score(server._model, [*PROMPTS[0], *answer.token_ids])
    assert scored[-len(answer.token_ids) :] == pytest.approx(answer.log_probs, abs=1e-5)


def test_without_aqn_nothing_is_recorded_or_changed(make_server: Any, tmp_path: Path) -> None:
    server = make_server()
    state = trained(server)
    asyncio.run(server.load_weights(state, 4))
    assert all(torch.equal(server._model.state_dict()[name], state[name]) for name in state)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda state: state.pop("model.norm.weight"), "lacks .'model.norm.weight'"),
        (lambda state: state.update({"model.layers.0.mlp.experts.0.up_proj.weight": torch.ones(1)}), "no place for"),
    ],
)
def test_weights_that_do_not_fit_are_refused(make_server: Any, break_it: Any, message: str) -> None:
    server = make_server()
    state = trained(server)
    break_it(state)
    with pytest.raises(ValueError, match=message):
        asyncio.run(server.load_weights(state, 1))


def test_a_failure_reaches_the_caller(make_server: Any) -> None:
    with pytest.raises(RuntimeError, match="rollout failed"):
        asyncio.run(make_server().generate((4711,), SAMPLING, request_id="x"))
