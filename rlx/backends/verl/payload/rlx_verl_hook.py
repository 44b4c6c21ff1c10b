"""Brings AQN into a stock verl that generates with vLLM or vllm-ascend, from outside.

Active through VERL_USE_EXTERNAL_MODULES=rlx_verl_hook: verl imports this module in every process of the run, while
`import verl` is still under way. It first reads verl's own source: a hook point that is missing or has changed ends the
run right there (RLX641), before Ray or a model is loaded. The classes themselves are changed when verl imports them.

From 0.7.1 on (`rlx_verl_hook_sync`): a weight sync finds the weights clean, and after it the trainer tells every worker
of every replica which step they serve. 0.6.1 (`rlx_verl_hook_061`) syncs before every generation.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rlx_aqn_hook import Patch, PatchingFinder
from rlx_aqn_settings import InjectionSettings, settings_file
from rlx_verl_hook_points import check_points


def install(verl: Path, settings: InjectionSettings) -> None:
    """Check the verl whose package folder is `verl`, and arrange for its classes to be changed. Raises ValueError.

    An arm without noise trains as it is meant to where nothing can be hooked: it only goes unwatched.
    """
    try:
        points = check_points(verl)
    except ValueError as problem:
        if not settings.only_watches:
            raise
        print(f"[rlx] this arm without noise is not watched: {problem}", flush=True)
        return
    finder = PatchingFinder.of(points, _patches())
    sys.meta_path.insert(0, finder)
    for name in {point.module for point in points} & sys.modules.keys():
        finder.patch(name, sys.modules[name])


def _patches() -> dict[str, Patch]:
    """By the role of the point."""
    import rlx_verl_hook_061
    import rlx_verl_hook_sync

    return {
        "worker": rlx_verl_hook_sync.hook_worker,
        "manager": rlx_verl_hook_sync.hook_manager,
        "trainer": rlx_verl_hook_sync.hook_trainer,
        "loop": rlx_verl_hook_061.hook_loop,
        "rollout": rlx_verl_hook_061.hook_rollout,
    }


if "verl" in sys.modules and (file := settings_file()) is not None:
    install(Path(sys.modules["verl"].__path__[0]), InjectionSettings.read(file))
