"""Launches RL experiments on remote NPU hosts and tells the truth about the result.

    import rlx

    plans = rlx.plan("recipe.yaml", arms=["baseline", "aqn"], seeds=[1, 2, 3], host="a3")
    runs = rlx.launch(plans)
    rlx.compare("baseline", "aqn").sentences

Every function returns values, prints nothing, and raises RlxError where a user can mend what is wrong. docs/api.md
shows them at work. Each is imported when it is first used.
"""

from __future__ import annotations

import sys

__version__ = "0.2.0"

# Type checkers take it for true; the module `typing` costs more than all the rest here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from rlx.api.bundles import bundle
    from rlx.api.comparing import compare
    from rlx.api.diagnosing import diagnose, explain
    from rlx.api.experiments import experiments
    from rlx.api.hosts import start_container
    from rlx.api.launching import launch
    from rlx.api.logs import logs
    from rlx.api.metrics import export, metrics
    from rlx.api.noise import noise_schedule, norm_weights
    from rlx.api.planning import plan
    from rlx.api.power import power
    from rlx.api.pruning import prune
    from rlx.api.queues import queue
    from rlx.api.recipe_from import recipe_from
    from rlx.api.recipes import layouts, migrate, validate
    from rlx.api.rehearsing import rehearse
    from rlx.api.reporting import report
    from rlx.api.retrying import retry
    from rlx.api.runs import find_runs, judge, pull, read_log, remove, restore, stop
    from rlx.api.scripts import plan_script
    from rlx.api.status import status
    from rlx.api.sweeping import plan_sweep
    from rlx.api.tracking import adopt, import_logs
    from rlx.api.verifying import judge_bundle
    from rlx.api.waiting import wait
    from rlx.api.waiving import unwaive, waive
    from rlx.errors import ExitCode, NoSuchRun, RlxError, UsageError
    from rlx.recipe import load_recipe
else:
    ModuleType = type(sys)

__all__ = [
    "ExitCode",
    "NoSuchRun",
    "RlxError",
    "UsageError",
    "__version__",
    "adopt",
    "bundle",
    "compare",
    "diagnose",
    "experiments",
    "explain",
    "export",
    "find_runs",
    "import_logs",
    "judge",
    "judge_bundle",
    "launch",
    "layouts",
    "load_recipe",
    "logs",
    "metrics",
    "migrate",
    "noise_schedule",
    "norm_weights",
    "plan",
    "plan_script",
    "plan_sweep",
    "power",
    "prune",
    "pull",
    "queue",
    "read_log",
    "recipe_from",
    "rehearse",
    "remove",
    "report",
    "restore",
    "retry",
    "start_container",
    "status",
    "stop",
    "unwaive",
    "validate",
    "wait",
    "waive",
]

_HOMES = {
    "ExitCode": "rlx.errors",
    "NoSuchRun": "rlx.errors",
    "RlxError": "rlx.errors",
    "UsageError": "rlx.errors",
    "adopt": "rlx.api.tracking",
    "bundle": "rlx.api.bundles",
    "compare": "rlx.api.comparing",
    "diagnose": "rlx.api.diagnosing",
    "experiments": "rlx.api.experiments",
    "explain": "rlx.api.diagnosing",
    "export": "rlx.api.metrics",
    "find_runs": "rlx.api.runs",
    "import_logs": "rlx.api.tracking",
    "judge": "rlx.api.runs",
    "judge_bundle": "rlx.api.verifying",
    "launch": "rlx.api.launching",
    "layouts": "rlx.api.recipes",
    "load_recipe": "rlx.recipe",
    "logs": "rlx.api.logs",
    "metrics": "rlx.api.metrics",
    "migrate": "rlx.api.recipes",
    "noise_schedule": "rlx.api.noise",
    "norm_weights": "rlx.api.noise",
    "plan": "rlx.api.planning",
    "plan_script": "rlx.api.scripts",
    "plan_sweep": "rlx.api.sweeping",
    "power": "rlx.api.power",
    "prune": "rlx.api.pruning",
    "pull": "rlx.api.runs",
    "queue": "rlx.api.queues",
    "read_log": "rlx.api.runs",
    "recipe_from": "rlx.api.recipe_from",
    "rehearse": "rlx.api.rehearsing",
    "remove": "rlx.api.runs",
    "report": "rlx.api.reporting",
    "restore": "rlx.api.runs",
    "retry": "rlx.api.retrying",
    "start_container": "rlx.api.hosts",
    "status": "rlx.api.status",
    "stop": "rlx.api.runs",
    "unwaive": "rlx.api.waiving",
    "validate": "rlx.api.recipes",
    "wait": "rlx.api.waiting",
    "waive": "rlx.api.waiving",
}


class _FrontDoor(ModuleType):
    """Keep `rlx.compare` and `rlx.report` the functions.

    Importing the packages of these names would put the packages in their place. They stay importable.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor


def __getattr__(name: str) -> object:
    """Import a public function when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
