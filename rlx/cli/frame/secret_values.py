"""Get the values of variables and secrets from a file, the caller's environment, or a question at the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rlx.errors import UsageError
from rlx.local_files import read_bytes

_MOST_BYTES = 1_000_000


def secret_values(secret_file: str | None, wanted: Iterable[str] = ()) -> Mapping[str, str]:
    """Return the values of secrets by name; ask for missing `wanted` ones at the terminal, if there is one.

    Raise UsageError for a file that cannot be read.
    """
    given = {**os.environ, **(_read("--secret-file", secret_file) if secret_file else {})}
    missing = [name for name in dict.fromkeys(wanted) if not given.get(name)]
    return given | (_asked(missing) if sys.stdin.isatty() else {})


def variables(given: Sequence[str], env_file: str | None) -> dict[str, str]:
    """Return the variables of --env-file, then of --env: NAME=VALUE, or NAME with the value that it has here.

    Raise UsageError for one that has none here, and for a file that cannot be read.
    """
    found = _read("--env-file", env_file) if env_file else {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: is not set here", f"--env {name}=VALUE, or export {name}")
        found[name] = value if equals else os.environ[name]
    return found


def _asked(names: Iterable[str]) -> dict[str, str]:
    """Ask without showing what is typed; an empty answer counts as missing."""
    from getpass import getpass

    try:
        return {name: getpass(f"{name}: ") for name in names}
    except EOFError:
        return {}


def _read(option: str, name: str) -> dict[str, str]:
    # Path.expanduser raises RuntimeError for an unknown ~user; os.path leaves it, and the file is then not found.
    path = Path(os.path.expanduser(name))  # noqa: PTH111
    try:
        text = os.fsdecode(read_bytes(path, _MOST_BYTES))
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}", "name a file of NAME=VALUE lines here") from None
    values = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, equals, value = line.strip().removeprefix("export ").partition("=")
            if not equals:
                # The line is not shown: it may be half of a secret.
                raise UsageError(f"{option} {path}:{number}: this is no NAME=VALUE line")
            values[name.strip()] = _unquoted(value)
    return values


def _unquoted(value: str) -> str:
    """Remove one pair of quotes, as in files that a shell reads, and nothing else."""
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
