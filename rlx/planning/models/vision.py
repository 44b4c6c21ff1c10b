"""Count the parameters of the vision towers of Qwen's models, as transformers' modules lay them out.

Source: transformers 5.10 `models/{qwen2_5_vl,qwen3_vl}/modeling_*.py`; tests/planning/test_architectures.py holds the
formulas against the modules themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

_CHANNELS, _FRAMES, _MERGED = 3, 2, 4  # colours, frames of a patch, patches that become one token


@dataclass(frozen=True, slots=True)
class Vision:
    """Widths in numbers; `out` is that of the language model. `positions` and `deepstack` are Qwen3-VL's alone."""

    depth: int
    hidden: int
    mlp_hidden: int
    out: int
    patch: int
    positions: int = 0
    deepstack: int = 0
    gated: bool = False


def count_vision(tower: Vision) -> int:
    """Qwen2.5-VL has gated MLPs and RMSNorm, Qwen3-VL plain MLPs, LayerNorm, biases, and more than one merger."""
    hidden, width, wide = tower.hidden, tower.mlp_hidden, _MERGED * tower.hidden
    attention = 4 * hidden * hidden + 4 * hidden
    matrices = 3 if tower.gated else 2
    mlp = matrices * hidden * width + (matrices - 1) * width + hidden
    norm = 1 if tower.gated else 2
    block = attention + mlp + 2 * norm * hidden
    embedding = _CHANNELS * _FRAMES * tower.patch**2 * hidden + (0 if tower.gated else hidden)
    merger = wide * wide + wide + wide * tower.out + tower.out
    mergers = merger + norm * hidden + tower.deepstack * (merger + norm * wide)
    return tower.depth * block + embedding + tower.positions * hidden + mergers
