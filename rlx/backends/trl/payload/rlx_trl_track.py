"""Trackers of transformers' Trainer, each of which may fail without the training: it is told, and let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import get_reporting_integration_callbacks


def trackers(names: Iterable[str]) -> Iterator[TrainerCallback]:
    for name in names:
        try:
            (kind,) = get_reporting_integration_callbacks([name])
            tracker = kind()
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever a tracker raises
            _tell(name, problem)
        else:
            # The Trainer warns of two callbacks of one class.
            yield type(f"Guarded{kind.__name__}", (_Guarded,), {})(name, tracker)


class _Guarded(TrainerCallback):
    def __init__(self, name: str, tracker: TrainerCallback) -> None:
        self._name, self._tracker = name, tracker

    def call(self, event: str, *arguments: Any, **more: Any) -> Any:
        if self._tracker is None:
            return None
        try:
            return getattr(self._tracker, event)(*arguments, **more)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever a tracker raises
            self._tracker = None
            _tell(self._name, problem)
            return None


def _passed_on(event: str) -> Callable[..., Any]:
    return lambda self, *arguments, **more: self.call(event, *arguments, **more)


for _event in dir(TrainerCallback):
    if _event.startswith("on_"):
        setattr(_Guarded, _event, _passed_on(_event))


def _tell(name: str, problem: BaseException) -> None:
    text = " ".join(str(problem).split())[:300]
    print(
        f"rlx: the tracker {name} failed, and the run goes on without it: {type(problem).__name__}: {text}", flush=True
    )
