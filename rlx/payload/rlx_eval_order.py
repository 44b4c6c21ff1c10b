"""Read the order for the evaluation after the training, as rlx wrote it down when the run was planned."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class EvalFailure(Exception):
    """Why there is no result, in one line for the log."""


@dataclass(frozen=True)
class EvalOrder:
    """Lengths in tokens. `row_count`: what the recipe promises, None if nothing.

    `reward`: {"name"} or {"file", "function", "kwargs"}. `convert` is a program, `merge` the arguments of verl's own
    merger; one of them is there. `lora_alpha`: None where all weights are trained. `devices` is what vLLM splits the
    model over, `memory` the share of each that it may take, `eager` that it compiles no graphs.
    """

    metric: str
    rows: str
    row_count: int | None
    prompt_key: str
    n: int
    temperature: float
    seed: int
    max_response_tokens: int
    engine: str
    batch_size: int
    device: str
    dtype: str
    devices: int
    memory: float
    eager: bool
    reward: dict[str, Any]
    convert: str | None
    merge: list[str]
    lora_alpha: float | None

    @classmethod
    def read(cls, path: Path) -> EvalOrder:
        return cls(**json.loads(path.read_text(encoding="utf-8")))
