"""Brings AQN into a stock verl that generates with vLLM or vllm-ascend, from outside.

Active through VERL_USE_EXTERNAL_MODULES=rlx_verl_hook: verl imports this module in every process of the run, while
`import verl` is still under way. It first reads verl's own source: a hook point that is missing or has changed ends the
run right there (RLX641), before Ray or a model is loaded. The classes themselves are changed when verl imports them.

From 0.7.1 on (`rlx_verl_hook_sync`): a weight sync finds the weights clean, and after it the trainer tells every worker
of every replica which step they serve. 0.6.1 (`rlx_verl_hook_061`) syncs before every generation.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from rlx_verl_hook_points import Point, check_points

Patch = Callable[[type], None]


class PatchingFinder(importlib.abc.MetaPathFinder):
    """Lets others find the modules, and changes classes in them as soon as they have been executed."""

    def __init__(self, patches: Mapping[str, Sequence[tuple[str, Patch]]]) -> None:
        self._patches = patches

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._patches:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.patch(name, module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def patch(self, name: str, module: ModuleType) -> None:
        for class_name, patch in self._patches[name]:
            patch(getattr(module, class_name))


def install(verl: Path) -> None:
    """Check the verl whose package folder is `verl`, and arrange for its classes to be changed. Raises ValueError."""
    points = check_points(verl)
    finder = PatchingFinder(patches_for(points))
    sys.meta_path.insert(0, finder)
    for name in {point.module for point in points} & sys.modules.keys():
        finder.patch(name, sys.modules[name])


def patches_for(points: Sequence[Point]) -> dict[str, list[tuple[str, Patch]]]:
    patches: dict[str, list[tuple[str, Patch]]] = {}
    for point in points:
        if (patch := _patch(point)) is not None:
            patches.setdefault(point.module, []).append((point.owner, patch))
    return patches


def _patch(point: Point) -> Patch | None:
    """None for a point that is only called."""
    import rlx_verl_hook_061
    import rlx_verl_hook_sync

    by_name: dict[str, Patch] = {
        "worker": rlx_verl_hook_sync.hook_worker,
        "manager": rlx_verl_hook_sync.hook_manager,
        "trainer": rlx_verl_hook_sync.hook_trainer,
        "loop": rlx_verl_hook_061.hook_loop,
        "rollout": rlx_verl_hook_061.hook_rollout,
    }
    return by_name.get(point.role)


def is_wanted() -> bool:
    """Whether this run carries noise; a control does not even have this module."""
    run_dir = os.environ.get("RLX_RUN_DIR")
    return run_dir is not None and Path(run_dir, "payload", "aqn.json").exists()


if "verl" in sys.modules and is_wanted():
    install(Path(sys.modules["verl"].__path__[0]))
