"""The configuration that the training program composed in the container: its own files and every override together.

Hydra writes it to `hydra/.hydra/config.yaml` of the attempt before anything else runs. Interpolations are left as they
are written, so it holds no value of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx.evidence.printed_config import read_printed_config

COMPOSED = "hydra/.hydra/config.yaml"
_MOST_BYTES = 4 << 20


def configurations(attempt: Path) -> dict[str, Mapping[str, Any]]:
    """What the container composed (`config`) and what the log shows of it (`printed_config`), as far as they are there.

    The files of a fork may set what no recipe names.
    """
    found = {"config": read_composed(attempt), "printed_config": read_printed_config(attempt / "log")}
    return {kind: tree for kind, tree in found.items() if tree}


def read_composed(attempt: Path) -> Mapping[str, Any]:
    """The configuration of an attempt as a tree; empty where none was written, or it cannot be read."""
    try:
        with (attempt / COMPOSED).open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return {}
    tree = _parse(text)
    return tree if isinstance(tree, dict) else {}


def _parse(text: bytes) -> Any:
    # PyYAML takes longer to import than a status takes: only a comparison needs it.
    import yaml

    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
