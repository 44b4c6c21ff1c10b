"""What the workers of MindSpeed-RL get for variables: its own file of them, and the recipe's `env` over that.

    python mindspeed_rl_env.py RUNTIME_ENV.yaml VARIABLES.json OUTPUT.yaml

Travels with the run. Ray sets the file's variables in each worker, so what launch.sh alone exports would not count.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(own: str, variables: str, output: str) -> None:
    import yaml

    try:
        runtime_env = yaml.safe_load(Path(own).read_text(encoding="utf-8"))
        merged = {**runtime_env["env_vars"], **json.loads(Path(variables).read_text(encoding="utf-8"))}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as problem:
        sys.exit(f"rlx: {own}: no variables for the workers can be read ({problem})")
    text = yaml.safe_dump({**runtime_env, "env_vars": {name: str(value) for name, value in merged.items()}})
    Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
