"""Logs as verl writes them, for benchmarks: mostly chatter, generated answers, bars, and a metrics line a step."""

from __future__ import annotations

import random
from pathlib import Path

METRICS = 100
_SPEAKER = b"\x1b[36m(TaskRunner pid=247607)\x1b[0m "
_TEXT = (
    "the answer is we need to find sum of so that let first step then each total number apples costs dollars per day "
    "$ = + 12 340 7.5 therefore multiply by \\boxed{42} <think> </think> weeks Janet eggs sells half price remaining"
)
_CHATTER = (
    b"\x1b[36m(WorkerDict pid=%d)\x1b[0m INFO 11-20 14:42:%02d [executor_base.py:226] It took 1.46 s to wake up.\n",
    b"\x1b[36m(WorkerDict pid=%d)\x1b[0m /usr/lib/python3/site-packages/torch/distributed/fsdp/fully_sharded.py:%d: "
    b"FutureWarning: FSDP.state_dict_type() is being deprecated. [repeated 7x across cluster]\n",
    b'\x1b[36m(vLLMHttpServer pid=%d)\x1b[0m INFO:     10.0.0.1:%d - "POST /v1/completions HTTP/1.1" 200 OK\n',
    b"\x1b[36m(WorkerDict pid=%d)\x1b[0m [2026-11-20 12:00:%02d] Before compute_log_prob, memory allocated (GB): 3.2\n",
)
_STEP_EVERY_BYTES = 107_000
_BLOCKS = 50


def write_log(path: Path, size: int) -> int:
    """A log of about `size` bytes; returns how many steps it shows. The same every time."""
    rng = random.Random(1)
    blocks = [_between_steps(rng) for _ in range(_BLOCKS)]
    step = 0
    with path.open("wb") as log:
        while log.tell() < size:
            step += 1
            log.write(blocks[step % _BLOCKS])
            log.write(b"\n\rTraining Progress:  10%%|#   | %d/10000 [1:00:00<9:00:00, 40.1s/it]\n" % step)
            log.write(_SPEAKER + metrics_line(rng, step))
    return step


def metrics_line(rng: random.Random, step: int) -> bytes:
    """About 3 kB; every fifth value as numpy 2 prints it."""
    values = {"timing_s/step": 40 + rng.random(), "critic/score/mean": min(1.0, step / 10_000)}
    values |= {f"actor/some_longer_name/{number}": rng.random() for number in range(METRICS - len(values))}
    shown = (
        f"{key}:np.float64({value})" if number % 5 == 0 else f"{key}:{value}"
        for number, (key, value) in enumerate(values.items())
    )
    return f"step:{step} - {' - '.join(shown)}\n".encode()


def _between_steps(rng: random.Random) -> bytes:
    parts: list[bytes] = []
    while sum(map(len, parts)) < _STEP_EVERY_BYTES:
        parts += [_answer(rng)] if rng.random() < 0.35 else [_chatter(rng) for _ in range(10)]
    bars = (b"\rProcessed prompts:  %d%%|####      | %d/512 [00:10<00:10, 12.3it/s]" % (5 * k, k) for k in range(20))
    return b"".join((*parts, *bars))


def _chatter(rng: random.Random) -> bytes:
    return rng.choice(_CHATTER) % (rng.randint(1000, 9999), rng.randint(10, 59))


def _answer(rng: random.Random) -> bytes:
    words = _TEXT.split()
    lines = (" ".join(rng.choices(words, k=rng.randint(4, 25))).encode() for _ in range(rng.randint(3, 30)))
    told = (b"[prompt] user", b"Janet sells eggs", b"assistant", *lines, b"[ground_truth] 42", b"[score] 1.0")
    return b"".join(_SPEAKER + line + b"\n" for line in told)
