"""Writes a key table from verl's own configuration tree.

    python -m rlx.backends.verl.generate_keys VERSION FOLDER

FOLDER is `verl/trainer/config` of a checkout or of an unpacked wheel (`pip download --no-deps verl==VERSION`). Two
files appear in `keys/VERSION/`: one sorted `key: default` a line, so that the difference of two versions is a `diff`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rlx.backends.verl.config_folder import read_config_folder
from rlx.backends.verl.keys import KEYS_FOLDER, TRAINERS


def generate(version: str, folder: Path) -> list[Path]:
    """Write one table a trainer and return the paths. Raises UsageError if `folder` holds no verl configuration."""
    target = KEYS_FOLDER / version
    target.mkdir(parents=True, exist_ok=True)
    return [_write(target / f"{trainer}.json", read_config_folder(folder, trainer)) for trainer in TRAINERS]


def _write(path: Path, defaults: dict[str, object]) -> Path:
    path.write_text(json.dumps(defaults, indent=0, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    for written in generate(sys.argv[1], Path(sys.argv[2])):
        print(written)
