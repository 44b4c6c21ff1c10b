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

    from rlx.api.bundle_judging import judge_bundle
    from rlx.api.bundling import bundle
    from rlx.api.comparing import compare
    from rlx.api.containers import start_container
    from rlx.api.diagnosing import diagnose
    from rlx.api.experiments import experiments
    from rlx.api.explaining import explain
    from rlx.api.exporting import export
    from rlx.api.launching import launch
    from rlx.api.layouts import layouts
    from rlx.api.metrics import metrics
    from rlx.api.migration import migrate
    from rlx.api.noise import noise_schedule
    from rlx.api.norm_weights import norm_weights
    from rlx.api.planning import plan
    from rlx.api.power import power
    from rlx.api.pruning import prune
    from rlx.api.pulling import pull
    from rlx.api.queues import queue
    from rlx.api.reading import judge, read_log
    from rlx.api.recipe_from import recipe_from
    from rlx.api.rehearsing import rehearse
    from rlx.api.removing import remove, restore
    from rlx.api.reporting import report
    from rlx.api.retrying import retry
    from rlx.api.run_logs import logs
    from rlx.api.scripts import plan_script
    from rlx.api.selection import find_runs
    from rlx.api.status import status
    from rlx.api.stopping import stop
    from rlx.api.sweeping import plan_sweep
    from rlx.api.taking_in import adopt, import_logs
    from rlx.api.validating import validate
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
    "adopt": "rlx.api.taking_in",
    "bundle": "rlx.api.bundling",
    "compare": "rlx.api.comparing",
    "diagnose": "rlx.api.diagnosing",
    "experiments": "rlx.api.experiments",
    "explain": "rlx.api.explaining",
    "export": "rlx.api.exporting",
    "find_runs": "rlx.api.selection",
    "import_logs": "rlx.api.taking_in",
    "judge": "rlx.api.reading",
    "judge_bundle": "rlx.api.bundle_judging",
    "launch": "rlx.api.launching",
    "layouts": "rlx.api.layouts",
    "load_recipe": "rlx.recipe",
    "logs": "rlx.api.run_logs",
    "metrics": "rlx.api.metrics",
    "migrate": "rlx.api.migration",
    "noise_schedule": "rlx.api.noise",
    "norm_weights": "rlx.api.norm_weights",
    "plan": "rlx.api.planning",
    "plan_script": "rlx.api.scripts",
    "plan_sweep": "rlx.api.sweeping",
    "power": "rlx.api.power",
    "prune": "rlx.api.pruning",
    "pull": "rlx.api.pulling",
    "queue": "rlx.api.queues",
    "read_log": "rlx.api.reading",
    "recipe_from": "rlx.api.recipe_from",
    "rehearse": "rlx.api.rehearsing",
    "remove": "rlx.api.removing",
    "report": "rlx.api.reporting",
    "restore": "rlx.api.removing",
    "retry": "rlx.api.retrying",
    "start_container": "rlx.api.containers",
    "status": "rlx.api.status",
    "stop": "rlx.api.stopping",
    "unwaive": "rlx.api.waiving",
    "validate": "rlx.api.validating",
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
