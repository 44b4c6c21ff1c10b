"""A weight sync with noise and the paired probe against the same with noise alone, and an arm without noise that is
watched against the noisy one: python benchmarks/probe.py

The tiny model in rlx's own rollout, one thread, rows of 39 tokens as in recipes/tiny-cpu.yaml. CPU time, because wall
time measures the neighbours; in turns. Beside it the digest of as many norms as a model of 0.5B has. Needs verl==0.9.1.
Exits with 1 where a budget is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "rlx/payload"), str(REPOSITORY / "rlx/backends/verl/payload")]

from benchmarks.noisy_sync import NOISY_STEP, prepare  # noqa: E402
from benchmarks.rows import HEAD, Row, Way  # noqa: E402

LOOKS_S, DIGEST_S = 0.1, 0.001
# A watch draws nothing, so it must not cost more than what it stands beside.
WATCH = 1.05
# Of recipes/tiny-cpu.yaml, and of Qwen2.5-0.5B.
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 256, "tie_word_embeddings": True}  # fmt: skip
NORMS, WIDTH = 49, 896


def server_of(folder: Path, probed: bool) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from rlx_verl_cpu_rollout import CPUServer

    config = SimpleNamespace(dtype="float32", seed=1, prompt_length=32, response_length=8, max_num_seqs=64)
    server = CPUServer(config, SimpleNamespace(local_path=str(folder), generation_config=None), 0)
    if not probed:
        server._probe = SimpleNamespace(clean=_nothing, pair=_nothing)
    return server


async def _nothing(*_: object) -> None:
    pass


def sync_of(server: Any, validated: bool) -> Callable[[], None]:
    """A sync that makes the weights noisy; with a validation it is there and back as well."""
    state = {name: weight.clone() for name, weight in server._model.state_dict().items() if name != "lm_head.weight"}

    async def sync() -> None:
        await server.load_weights(state, NOISY_STEP - 1)
        if validated:
            await server.enter("validation", NOISY_STEP - 1)
            await server.enter("rollout", NOISY_STEP)

    return lambda: asyncio.run(sync())


def cpu_in_turns(ways: Mapping[str, Way], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each; the first round only warms up."""
    samples = [{name: _cpu_seconds(way) for name, way in ways.items()} for _ in range(rounds + 1)]
    return {name: median(sample[name] for sample in samples[1:]) for name in ways}


def _cpu_seconds(way: Way) -> float:
    began = time.process_time()
    way()
    return time.process_time() - began


def watching_server_of(folder: Path) -> Any:
    """Of an arm without noise beside one with it."""
    settings = folder.parent / "payload/aqn.json"
    noisy = settings.read_text(encoding="utf-8")
    settings.write_text(
        json.dumps({**json.loads(noisy), "sigma_start": 0.0, "sigma_end": 0.0, "schedule": "constant"}),
        encoding="utf-8",
    )
    server = server_of(folder, True)
    settings.write_text(noisy, encoding="utf-8")
    return server


def rows_of(folder: Path, rounds: int) -> list[Row]:
    probed, plain, watching = server_of(folder, True), server_of(folder, False), watching_server_of(folder)
    rows = []
    for validated, what in ((False, "sync with noise, two looks"), (True, "the same with a validation, four looks")):
        servers = {"probed": probed, "plain": plain, "watching": watching}
        seconds = cpu_in_turns({name: sync_of(server, validated) for name, server in servers.items()}, rounds)
        both, alone, watch = seconds["probed"], seconds["plain"], seconds["watching"]
        against = f"{1000 * alone:.1f} ms without the probe"
        rows.append(Row(what, f"{1000 * both:.1f} ms", against, both / alone, "×"))
        rows.append(Row("all its looks", f"{1000 * (both - alone):.1f} ms", "–", both - alone, "s", LOOKS_S))
        noisy = f"{1000 * both:.1f} ms with noise"
        rows.append(Row("the same in a control", f"{1000 * watch:.1f} ms", noisy, watch / both, "×", WATCH))
    return [*rows, _digest_row(rounds)]


def _digest_row(rounds: int) -> Row:
    import torch
    from rlx_aqn_digest import WeightSnapshot

    weights = [(f"model.layers.{number}.weight", torch.ones(WIDTH).bfloat16()) for number in range(NORMS)]
    seconds = cpu_in_turns({"digest": lambda: WeightSnapshot(weights).digest}, 10 * rounds)["digest"]
    what = f"digest of {NORMS} norms of {WIDTH} bfloat16 weights"
    return Row(what, f"{1000 * seconds:.2f} ms", "–", seconds, "s", DIGEST_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="syncs each way (default: 30)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):  # the noise announces itself
        prepare(Path(name))
        from tiny_model import make

        make(Path(name, "model"), {"model_type": "qwen2", "chat": "chatml", "config": TINY})
        rows = rows_of(Path(name, "model"), options.rounds)
    print(HEAD, *rows, sep="\n")
    return int(not all(row.kept for row in rows))


if __name__ == "__main__":
    sys.exit(main())
