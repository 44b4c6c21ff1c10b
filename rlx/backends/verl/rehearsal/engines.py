"""Find what generates in a rehearsal: the real vLLM where its CPU build is there, else rlx's own rollout."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.shared.vllm_cpu import HEAD_SIZES
from rlx.errors import RlxError, UsageError
from rlx.planning.rehearsal.twin import Engine
from rlx.planning.rules.facts import facts_of

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

# Beside the environment of rlx, as `make engines` makes it.
_BESIDE = ".venv-engines/bin/python"
NAMES = ("cpu", "vllm")


def engine_for(resolved: ResolvedRecipe, wanted: str | None) -> Engine:
    """The engine by this name; without one, the recipe's own where it is there and has been seen with such a model.

    Raises UsageError for another name, RlxError where vLLM is wanted and its CPU build is not there.
    """
    if wanted not in (None, *NAMES):
        raise UsageError(f"--engine {wanted}: a rehearsal generates with {' or '.join(NAMES)}", "leave it out")
    python = _vllm_python()
    if wanted == "vllm" and not python:
        raise RlxError(f"there is no {_BESIDE} beside {sys.prefix}", "make engines in a clone of rlx, or --engine cpu")
    if wanted == "cpu" or not python or not (wanted or _is_seen_with(resolved)):
        return Engine()
    return Engine("vllm", python, HEAD_SIZES[0], "the real vLLM, its CPU build")


def _vllm_python() -> str:
    if importlib.util.find_spec("vllm") is not None:
        return "python3"
    beside = Path(sys.prefix).parent / _BESIDE
    return str(beside) if beside.exists() else ""


def _is_seen_with(resolved: ResolvedRecipe) -> bool:
    """Dense models only: experts and latent attention were not tried with the CPU build."""
    shape = facts_of(resolved).architecture
    return resolved.recipe.rollout.engine == "vllm" and not (shape and (shape.experts or shape.latent))
