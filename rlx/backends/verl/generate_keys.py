"""Writes a key table from a configuration tree of verl or of a fork.

    python -m rlx.backends.verl.generate_keys VERSION FOLDER
    python -m rlx.backends.verl.generate_keys --fork SOURCE FOLDER CONFIG_NAME > keys.yaml

FOLDER is `verl/trainer/config` of a checkout or of an unpacked wheel (`pip download --no-deps verl==VERSION`). The
first form writes two files into `keys/VERSION/`: one sorted `key: default` a line, so that the difference of two
versions is a `diff`. The second prints a file for `backend.key_source`: the keys of a start from CONFIG_NAME, with
SOURCE, which is what to call the fork and its commit, on top.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rlx.backends.verl.config_folder import read_config_folder
from rlx.backends.verl.keys import KEYS_FOLDER, TRAINERS
from rlx.errors import RlxError

_HEADER = """\
# Every key of {source}, for a start from {config_name}, with its default.
# Written by `python -m rlx.backends.verl.generate_keys --fork` from the fork's verl/trainer/config. For another commit,
# name that folder in backend.key_source instead.
"""


def generate(version: str, folder: Path) -> list[Path]:
    """Write one table a trainer and return the paths. Raises UsageError if `folder` holds no verl configuration."""
    target = KEYS_FOLDER / version
    target.mkdir(parents=True, exist_ok=True)
    return [_write(target / f"{trainer}.json", read_config_folder(folder, trainer)) for trainer in TRAINERS]


def fork_keys(source: str, folder: Path, config_name: str) -> str:
    """The text of a key file. Raises UsageError if `folder` has no `config_name`."""
    import yaml

    keys = read_config_folder(folder, config_name)
    body = yaml.safe_dump(keys, sort_keys=True, allow_unicode=True, width=1000)
    return _HEADER.format(source=source, config_name=config_name) + body


def _write(path: Path, defaults: dict[str, object]) -> Path:
    path.write_text(json.dumps(defaults, indent=0, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--fork", source, folder, config_name]:
            print(fork_keys(source, Path(folder), config_name), end="")
        case [version, folder]:
            print(*generate(version, Path(folder)), sep="\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RlxError as problem:
        sys.exit(problem.message)
