"""Writes a key table from a configuration tree of verl or of a fork.

    python -m rlx.backends.verl.generate_keys FOLDER
    python -m rlx.backends.verl.generate_keys --fork SOURCE FOLDER CONFIG_NAME > keys.yaml

FOLDER is `verl/trainer/config` of a checkout or of an unpacked wheel (`pip download --no-deps verl==VERSION`). The
first form writes two files into `keys/VERSION/`: one sorted `key: default` a line, so that the difference of two
versions is a `diff`. VERSION is what the tree's own `verl/version/version` says, so that the table of a tree in
development (0.10.0.dev) is never taken for that of a release. The second prints a file for `backend.key_source`: the
keys of a start from CONFIG_NAME, with SOURCE, which is what to call the fork and its commit, on top.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from rlx.backends.verl.config_folder import read_config_folder
from rlx.backends.verl.keys import KEYS_FOLDER, TRAINERS
from rlx.errors import RlxError, UsageError
from rlx.local_files import read_text

_VERSION = re.compile(r"\d+(\.\d+)+(\.?(a|b|rc|dev|post)\d*)*(\+[\w.]+)?")
_MOST_VERSION = 1000
_HEADER = """\
# Every key of {source}, for a start from {config_name}, with its default.
# Written by `python -m rlx.backends.verl.generate_keys --fork` from the fork's verl/trainer/config. For another commit,
# name that folder in backend.key_source instead.
"""


def generate(folder: Path) -> list[Path]:
    """Write one table a trainer and return the paths.

    Raises UsageError if `folder` holds no verl configuration, or its tree names no version.
    """
    tables = {trainer: read_config_folder(folder, trainer) for trainer in TRAINERS}
    target = KEYS_FOLDER / tree_version(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [_write(target / f"{trainer}.json", table) for trainer, table in tables.items()]


def tree_version(folder: Path) -> str:
    """Read the version of the tree that a configuration folder belongs to. Raises UsageError where it names none."""
    packages = (folder.absolute().parent.parent, folder, folder / "verl")
    files = [package / "version/version" for package in packages]
    file = next(filter(Path.exists, files), files[0])
    hint = "take a checkout or an unpacked wheel of verl as it is; for any other tree, --fork writes a file of keys"
    try:
        version = read_text(file, _MOST_VERSION).strip()
    except OSError as problem:
        raise UsageError(f"{file}: {problem.strerror}", hint) from None
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{file} names no version: {version[:40]!r}", hint)
    return version


def fork_keys(source: str, folder: Path, config_name: str) -> str:
    """Write the text of a key file. Raises UsageError if `folder` has no `config_name`."""
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
        case [folder]:
            print(*generate(Path(folder)), sep="\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RlxError as problem:
        sys.exit(f"{problem.message}\n  fix: {problem.hint}")
