"""Write the variables of MindSpeed-RL's workers: its own file of them, and the recipe's `env` over that.

    python mindspeed_rl_env.py RUNTIME_ENV.yaml VARIABLES.json OUTPUT.yaml

Travels with the run. Ray sets the file's variables in each worker, so what launch.sh alone exports would not count.
An arm with noise brings rlx_mindspeed_rl_hook.py: then the workers get that as well.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(own: str, variables: str, output: str) -> None:
    import yaml

    try:
        runtime_env = yaml.safe_load(Path(own).read_text(encoding="utf-8"))
        merged = {**runtime_env["env_vars"], **json.loads(Path(variables).read_text(encoding="utf-8"))}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as problem:
        sys.exit(f"rlx: {own}: no variables for the workers can be read ({problem})")
    complete = with_noise({**runtime_env, "env_vars": {name: str(value) for name, value in merged.items()}})
    Path(output).write_text(yaml.safe_dump(complete), encoding="utf-8")


def with_noise(runtime_env: dict[str, Any]) -> dict[str, Any]:
    """Exit where this MindSpeed-RL lacks a place that the noise needs: the arm would train clean."""
    if not Path(__file__).with_name("rlx_mindspeed_rl_hook.py").exists():
        return runtime_env
    from rlx_mindspeed_rl_hook import with_setup

    try:
        return with_setup(runtime_env)
    except ValueError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main(*sys.argv[1:])
