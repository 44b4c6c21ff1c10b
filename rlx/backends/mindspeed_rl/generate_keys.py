"""Writes a key table from the configuration classes of a checkout of MindSpeed-RL.

    python -m rlx.backends.mindspeed_rl.generate_keys VERSION FOLDER

FOLDER is `mindspeed_rl/config_cls`. `keys/VERSION.json` appears: one sorted `key: default` a line. VERSION is the
name of the branch, since the tree itself cannot say it: its setup.py names 2.1.0 on each of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rlx.backends.mindspeed_rl.keys import KEYS_FOLDER, read_config_classes


def generate(version: str, folder: Path) -> Path:
    """Write the table and return its path. Raises UsageError if `folder` holds no such classes."""
    path = KEYS_FOLDER / f"{version}.json"
    text = json.dumps(read_config_classes(folder), indent=0, sort_keys=True, ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    print(generate(sys.argv[1], Path(sys.argv[2])))
