"""Find where the attempts of one run were configured differently: a later one then trained something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlx.backends.registry import loadable_part
from rlx.runs.judging.composed_config import configurations
from rlx.runs.judging.parser_cache import ParsedFiles

_SHOWN = 60


def reconfigured(kind: str, attempts: Sequence[Path], parsed: ParsedFiles) -> tuple[str, ...]:
    """`attempt 2: data.seed 1 → 2`, by what the training program composed; nothing where it left no configuration."""
    if len(attempts) < 2:
        return ()
    part = loadable_part(kind, "resume")
    free: Sequence[str] = part.KEYS if part else ()
    found = [(folder.name, dict(_leaves("", configurations(folder, parsed).get("config", {})))) for folder in attempts]
    told = [(name, leaves) for name, leaves in found if leaves]
    return tuple(
        f"attempt {name}: {key} {_short(told[0][1].get(key))} → {_short(leaves.get(key))}"
        for name, leaves in told[1:]
        for key in sorted(told[0][1].keys() | leaves.keys())
        if key not in free and told[0][1].get(key) != leaves.get(key)
    )


def _leaves(prefix: str, tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), value)
    elif prefix:
        yield prefix, tree


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:_SHOWN]
