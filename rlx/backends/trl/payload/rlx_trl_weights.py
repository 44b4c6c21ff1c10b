"""Records that TRL's optimizer moves the weights, and that the engine generates with them: the calls of rlx_weights."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from transformers import TrainerCallback


def recorders_of_run() -> tuple[Any, Any]:
    """Return the recorders of the trained and of the serving weights; None twice where the run does not record them."""
    if importlib.util.find_spec("rlx_weights") is None:
        return None, None
    from rlx_weights import Recorder

    return Recorder("trained"), Recorder("served")


class TrainedWeights(TrainerCallback):
    """Digests the model before the first step and after each; nothing of it ends a training."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._recorder.synced(model, state.global_step)

    def on_optimizer_step(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        """Record before the update: the gradients still exist, and the learning rate is that of this step."""
        from rlx_weights import guarded

        guarded(lambda: self._recorder.updated(_rate(optimizer), _norm(model)))

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._recorder.synced(model, state.global_step)


class ServedWeights:
    """Digests the model of the engine, once for each step that the trainer has completed."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self._last: int | None = None

    def served(self, model: Any, step: int) -> None:
        if self._recorder is not None and step != self._last:
            self._last = step
            self._recorder.synced(model, step)


def _rate(optimizer: Any) -> float:
    return max((float(group["lr"]) for group in optimizer.param_groups), default=0.0)


@torch.no_grad()
def _norm(model: Any) -> float:
    norms = [one.grad.norm() for one in model.parameters() if one.grad is not None]
    return float(torch.stack(norms).norm()) if norms else 0.0
