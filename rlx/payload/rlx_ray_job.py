"""Print the configuration of a Ray job with the environment of the run in it, for the workers of a Ray that is there.

    RAY_JOB_CONFIG_JSON_ENV_VAR=$(python rlx_ray_job.py)

Travels with the run. Those workers are no children of the driver and know nothing of its environment; Ray gives them
what this variable holds (`runtime_env`), and shows it in its dashboard, so that a run with secrets is not submitted. It
holds what differs from the environment that Ray gave the job's own process, RLX_RAY_JOB.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# Ray's own, and those by which it gives each worker its devices.
NOT_PASSED_ON = ("_", "SHLVL", "PWD", "OLDPWD", "RLX_RAY_JOB", "CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
PASSED_ON = ("RAY_DEDUP_LOGS",)


def own(now: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the run has set or changed."""
    return {
        name: value
        for name, value in sorted(now.items())
        if given.get(name) != value
        and (name in PASSED_ON or not (name in NOT_PASSED_ON or name.startswith("RAY_") or "%" in name))
    }


def given_to(pid: str) -> dict[str, str]:
    entries = Path("/proc", pid, "environ").read_bytes().split(b"\0")
    pairs = (entry.decode(errors="surrogateescape").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name}


def configuration(text: str, variables: Mapping[str, str]) -> str:
    document = json.loads(text or "{}")
    environment = document.setdefault("runtime_env", {})
    environment["env_vars"] = {**(environment.get("env_vars") or {}), **variables}
    return json.dumps(document)


if __name__ == "__main__":
    print(configuration(os.environ.get(CONFIG, ""), own(os.environ, given_to(os.environ["RLX_RAY_JOB"]))))
