"""The places of verl that the noise is hooked into, and the check that they are what they were.

Read in the wheels of verl 0.6.1, 0.7.1, 0.8.0 and 0.9.1. The source is parsed and not executed: that needs neither vLLM
nor an accelerator, and says what is wrong in the first second of a run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from rlx_aqn_settings import refusal


@dataclass(frozen=True)
class Point:
    """A method that is hooked or called. `parameters` are its first ones, by name; `says` is text of its class."""

    role: str
    module: str
    owner: str
    method: str
    parameters: tuple[str, ...]
    says: str = ""
    is_new: bool = False  # a module that only later versions have


_VLLM = "verl.workers.rollout.vllm_rollout"
_STEP = "self.checkpoint_manager.update_weights(self.global_steps)"
_SERVER = "vLLMHttpServer"
# From 0.7.1 to 0.9.1.
SYNC = (
    Point("worker", f"{_VLLM}.utils", "vLLMColocateWorkerExtension", "update_weights_from_ipc",
          ("self", "peft_config", "base_sync_done"), "self.model_runner.model"),
    Point("server", f"{_VLLM}.vllm_async_server", _SERVER, "collective_rpc", ("self", "method", "timeout", "args")),
    Point("server", f"{_VLLM}.vllm_async_server", _SERVER, "clear_kv_cache", ("self",)),
    Point("manager", "verl.checkpoint_engine.base", "CheckpointEngineManager", "update_weights",
          ("self", "global_steps"), "@auto_await\n    async def update_weights"),
    Point("trainer", "verl.trainer.ppo.ray_trainer", "RayPPOTrainer", "_validate", ("self",), _STEP),
    Point("trainer", "verl.trainer.ppo.v1.trainer_base", "PPOTrainer", "_validate", ("self",),
          "self.checkpoint_manager", is_new=True),
    Point("step", "verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync", "on_step_end", ("self",), _STEP, is_new=True),
)  # fmt: skip
# 0.6.1: the trainer's worker holds the engine and syncs before every generation.
BEFORE_EACH = (
    Point("loop", "verl.experimental.agent_loop.agent_loop", "AgentLoopManager", "generate_sequences",
          ("self", "prompts"), "self.wake_up()"),
    Point("rollout", f"{_VLLM}.vllm_rollout_spmd", "vLLMAsyncRollout", "update_weights", ("self", "weights"),
          "self.inference_engine.worker.model_runner.model"),
    Point("step", "verl.trainer.ppo.ray_trainer", "RayPPOTrainer", "fit", ("self",),
          'gen_batch.meta_info["global_steps"] = self.global_steps'),
)  # fmt: skip
_FIX = "use verl 0.6.1, 0.7.1, 0.8.0 or 0.9.1 unchanged, or aqn.provider: builtin with a fork that has noise"


def check_points(verl: Path) -> tuple[Point, ...]:
    """The points of the verl in this package folder. Raises ValueError for the first that is not what it was."""
    points = BEFORE_EACH if (verl / "workers/rollout/vllm_rollout/vllm_rollout_spmd.py").exists() else SYNC
    present = tuple(point for point in points if not (point.is_new and not _path(verl, point).exists()))
    for point in present:
        _check(verl, point)
    return present


def _path(verl: Path, point: Point) -> Path:
    return verl.parent / f"{point.module.replace('.', '/')}.py"


def _check(verl: Path, point: Point) -> None:
    where = f"{point.module}.{point.owner}"
    try:
        source = _path(verl, point).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, SyntaxError, UnicodeDecodeError):
        raise _changed(verl, f"{point.module} cannot be read") from None
    owner = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == point.owner), None)
    if owner is None:
        raise _changed(verl, f"{where} is missing")
    parameters = _parameters(owner, point.method)
    if parameters is None:
        raise _changed(verl, f"{where}.{point.method} is missing")
    if parameters[: len(point.parameters)] != point.parameters:
        raise _changed(verl, f"{where}.{point.method} takes {', '.join(parameters)}, not {', '.join(point.parameters)}")
    if point.says not in (ast.get_source_segment(source, owner) or ""):
        raise _changed(verl, f"{where} no longer says {point.says}")


def _parameters(owner: ast.ClassDef, method: str) -> tuple[str, ...] | None:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == method:
            return tuple(argument.arg for argument in node.args.args)
    return None


def _changed(verl: Path, what: str) -> ValueError:
    return refusal("RLX641", f"aqn: verl in {verl} has no place for the noise: {what}", _FIX)
