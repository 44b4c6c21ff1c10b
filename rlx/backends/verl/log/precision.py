"""Say in which precision verl trains and validates, from its settings.

Keys: verl 0.6.1 to 0.9.1 (`rollout.dtype`, `rollout.quantization`, `qat`), and `trainer.hw_error_injection` of
zhshgmail/verl, which imitates formats such as MXFP4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.evidence.log_grammar import PrecisionSettings
from rlx.evidence.reading.backend_settings import MODEL_DTYPE

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_ACTOR_DTYPES = (f"{_ACTOR}.fsdp_config.dtype", f"{_ACTOR}.megatron.dtype")
_TRAINED_QUANTISED = tuple(f"{_ACTOR}{engine}.qat.enable" for engine in ("", ".fsdp_config", ".megatron"))
_IMITATED = "trainer.hw_error_injection"
_IMITATION = tuple(f"{_IMITATED}.{name}" for name in ("enabled", "apply_during", "error_type"))
_KEYS = frozenset((*_ACTOR_DTYPES, *_TRAINED_QUANTISED, *_IMITATION, f"{_ROLLOUT}.dtype", f"{_ROLLOUT}.quantization"))
_LONG = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}


def trained_in(settings: Mapping[str, Any]) -> str:
    """The actor's precision in words; empty where it is not known."""
    dtype = next((settings[key] for key in _ACTOR_DTYPES if settings.get(key)), settings.get(MODEL_DTYPE))
    quantised = "quantised weights" if any(settings.get(key) is True for key in _TRAINED_QUANTISED) else ""
    return _words(dtype, quantised or _imitated(settings, {"training", "both"}))


def validated_in(settings: Mapping[str, Any]) -> str:
    """The rollout's precision in words; empty where it is not known."""
    quantised = "quantised weights" if settings.get(f"{_ROLLOUT}.quantization") else ""
    dtype = settings.get(f"{_ROLLOUT}.dtype") or settings.get(MODEL_DTYPE)
    return _words(dtype, quantised or _imitated(settings, {"rollout", "both"}))


def _imitated(settings: Mapping[str, Any], phases: set[str]) -> str:
    """The fork imitates a format in the rollout only unless it is told otherwise."""
    if settings.get(f"{_IMITATED}.enabled") is not True:
        return ""
    during = settings.get(f"{_IMITATED}.apply_during", "rollout")
    return f"imitated {settings.get(f'{_IMITATED}.error_type', 'errors')}" if during in phases else ""


def _words(dtype: Any, quantised: str) -> str:
    if not isinstance(dtype, str):
        return ""
    name = _LONG.get(dtype.lower(), dtype)
    return f"{name} with {quantised}" if quantised else name


PRECISION = PrecisionSettings(_KEYS, trained_in, validated_in)
