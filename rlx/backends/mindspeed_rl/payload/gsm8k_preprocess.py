"""Runs MindSpeed-RL's own preprocessing on what gsm8k_data.py wrote, in its checkout and with CANN's environment.

Source: cli/preprocess_data.py at 05a90d77, a program of Hydra that takes the name of its configuration first; so a
folder of configurations beside its own needs no copy into the checkout.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from data_rows import expanded

PACKED = [
    f"_packed_{part}_document.{end}" for part in ("input_ids", "attention_mask", "labels") for end in ("bin", "idx")
]
CANN = ["/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh"]
SCRIPT = """
for setup in "${@:5}"; do [ ! -r "$setup" ] || . "$setup"; done
cd "$1" && export PYTHONPATH="$1${PYTHONPATH:+:$PYTHONPATH}" &&
exec "$2" cli/preprocess_data.py gsm8k --config-dir "$3" hydra.run.dir="$4" hydra.output_subdir=null
"""
LAST_LINES = 5


def main(order: dict[str, Any]) -> dict[str, Any]:
    """`checkout`, `folder` (with gsm8k.yaml) and `setup` scripts; answers with `files`, or `problem` and `detail`."""
    checkout, folder = expanded(order["checkout"]), expanded(order["folder"]).absolute()
    if not (checkout / "cli/preprocess_data.py").is_file():
        return {"problem": "checkout", "detail": f"{checkout}: has no cli/preprocess_data.py"}
    with tempfile.TemporaryDirectory() as scratch:
        setup = [str(expanded(path)) for path in order["setup"]] or CANN
        words = [str(checkout.absolute()), sys.executable, str(folder), scratch, *setup]
        done = subprocess.run(
            ["bash", "-c", SCRIPT, "rlx", *words], capture_output=True, text=True, check=False, encoding="utf-8"
        )
    files = [Path(f"{folder}/data{name}") for name in PACKED]
    missing = [file.name for file in files if not file.is_file()]
    if done.returncode or missing:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-LAST_LINES:]
        lines = [f"cli/preprocess_data.py: exit {done.returncode}", *(f"  {line}" for line in said)]
        lines += [f"not there: {', '.join(missing)}"] if missing else []
        return {"problem": "preprocessing", "detail": "\n".join(lines)}
    return {"files": [str(file) for file in files]}
