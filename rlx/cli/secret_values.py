"""Where the values of secrets come from: a file, else the caller's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rlx.errors import UsageError


def secret_values(secret_file: str | None) -> Mapping[str, str]:
    """All values that a plan may ask for by name. Raises UsageError for a file that cannot be read."""
    return os.environ if secret_file is None else {**os.environ, **_read(Path(secret_file).expanduser())}


def _read(path: Path) -> dict[str, str]:
    try:
        text = os.fsdecode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--secret-file {path}: {error.strerror}") from None
    values = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, equals, value = line.strip().removeprefix("export ").partition("=")
            if not equals:
                # The line is not shown: it may be half of a secret.
                raise UsageError(f"--secret-file {path}:{number}: this is no NAME=VALUE line")
            values[name.strip()] = _unquoted(value)
    return values


def _unquoted(value: str) -> str:
    """Without one pair of quotes around it, as in files that a shell reads; everything else is taken as it is."""
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
