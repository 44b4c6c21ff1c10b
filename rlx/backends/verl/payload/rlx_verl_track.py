"""Lets a training go on whose tracker fails: a package that is missing, a login that is refused, a disk that is full.

Active through VERL_USE_EXTERNAL_MODULES=rlx_verl_track. verl's Tracking makes all loggers at once and raises what one
of them raises. Here each tracker is made by itself and let go where it fails. `console` and `file`, by which rlx
judges, stay as they are.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlx_aqn_hook import HookPoint, PatchingFinder, check

_MODULE = "verl.utils.tracking"
_OWN = ("console", "file")
POINTS = (
    HookPoint("tracking", _MODULE, "Tracking", "__init__", ("self", "project_name", "experiment_name",
              "default_backend"),
              "self.logger[\"wandb\"]"),
)  # fmt: skip


class Guarded:
    """One tracker, until it fails for the first time."""

    def __init__(self, name: str, tracker: Any) -> None:
        self._name, self._tracker = name, tracker

    def log(self, data: Any, step: int) -> None:
        self._call("log", data=data, step=step)

    def finish(self, **how: Any) -> None:
        self._call("finish", **how)

    def _call(self, method: str, **arguments: Any) -> None:
        if self._tracker is None:
            return
        try:
            getattr(self._tracker, method)(**arguments)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever a tracker raises
            self._tracker = None
            tell(self._name, problem)


def tell(name: str, problem: BaseException) -> None:
    text = " ".join(str(problem).split())[:300]
    print(
        f"rlx: the tracker {name} failed, and the run goes on without it: {type(problem).__name__}: {text}", flush=True
    )


def hook_tracking(cls: Any) -> None:
    init = cls.__init__

    @functools.wraps(init)
    def __init__(
        self: Any, project_name: str, experiment_name: str, default_backend: str | Sequence[str] = "console",
        *rest: Any, **config: Any,
    ) -> None:  # fmt: skip
        names = [default_backend] if isinstance(default_backend, str) else list(default_backend)
        init(self, project_name, experiment_name, [name for name in names if name in _OWN], *rest, **config)
        for name in names:
            if name not in _OWN:
                self.logger.update(_made(cls, init, name, (project_name, experiment_name, [name], *rest), config))

    cls.__init__ = __init__


def _made(cls: Any, init: Any, name: str, arguments: Sequence[Any], config: dict[str, Any]) -> dict[str, Guarded]:
    alone = cls.__new__(cls)
    try:
        init(alone, *arguments, **config)
        if name == "mlflow" and alone.logger:
            _tag_in_mlflow()
        return {key: Guarded(key, tracker) for key, tracker in alone.logger.items()}
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever a tracker raises
        tell(name, problem)
        return {}
    finally:
        alone.logger = {}  # else it would finish them when it is forgotten


def _tag_in_mlflow() -> None:
    """Set the tags of MLFLOW_TAGS: transformers reads that variable, verl does not."""
    import mlflow

    mlflow.set_tags(json.loads(os.environ.get("MLFLOW_TAGS", "{}")))


def install(verl: Path) -> None:
    try:
        points = check(verl, POINTS, "leave out track", "trackers that may fail")
    except ValueError as problem:
        print(f"rlx: a tracker that fails would end this run: {problem}", flush=True)
        return
    finder = PatchingFinder.of(points, {"tracking": hook_tracking})
    sys.meta_path.insert(0, finder)
    if _MODULE in sys.modules:
        finder.patch(_MODULE, sys.modules[_MODULE])


if "verl" in sys.modules:
    install(Path(sys.modules["verl"].__path__[0]))
