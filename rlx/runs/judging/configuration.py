"""Read the configuration that a training program composed, and compare it with the plan and between attempts.

A back-end that composes one is told to write it into the run directory before anything else runs: its own files and
every override together. Interpolations are left as they are written, so it holds no value of the environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from rlx.backends.registry import loadable_part
from rlx.evidence import Evidence
from rlx.evidence.cache.file_digest import digest_of_files
from rlx.evidence.checks.recipe_settings import setting_mismatches, tree_of
from rlx.evidence.grammars import by_kind
from rlx.evidence.run_configuration import read_printed_config, whole_configuration
from rlx.evidence.traces import UNKNOWN_SETUP, Setup
from rlx.local_files import parse_json, read_bytes
from rlx.model import LaunchPlan
from rlx.model.run_dir import COMPOSED_FILE, LOG_FILE, PRINTED_FILE, PROVENANCE_FILE
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.yaml_reader.hydra import bare_key, bare_leaves

Tree: TypeAlias = Mapping[str, Any]

_MOST_BYTES = 4 << 20
_SHOWN = 60
_MOST_PROVENANCE = 64 << 20


def configurations(attempt: Path, parsed: ParsedFiles) -> dict[str, Mapping[str, Any]]:
    """Read what the container composed (`config`) and what the log shows of it (`printed_config`), if any.

    The files of a fork may set what no recipe names.
    """
    found = {
        "config": composed_configuration(attempt, parsed),
        "printed_config": printed_configuration(attempt, parsed),
    }
    return {kind: tree for kind, tree in found.items() if tree}


def composed_configuration(attempt: Path, parsed: ParsedFiles) -> Tree:
    """Read what the container composed; empty if it wrote none."""
    return _once(read_composed, attempt, attempt / COMPOSED_FILE, parsed)


def printed_configuration(attempt: Path, parsed: ParsedFiles) -> Tree:
    """Read what the log of an attempt shows of its configuration; empty if nothing.

    A copy of a log on another host lacks these lines: launch.sh extracts them into a file of their own.
    """
    files = (attempt / LOG_FILE, attempt / PRINTED_FILE)
    return next((tree for file in files if (tree := _once(read_printed_config, file, file, parsed))), {})


def _once(read: Callable[[Path], Tree], argument: Path, file: Path, parsed: ParsedFiles) -> Tree:
    """Cache a reader by the content of the file."""
    if not (digest := digest_of_files([file])):
        return read(argument)
    found: Tree | None = parsed.cached((read.__name__, file), digest, lambda: _as_json(read(argument)))
    return read(argument) if found is None else found


def _as_json(tree: Tree) -> Tree | None:
    """Return the tree if JSON keeps it as it is, else None: YAML knows dates, and names that are numbers."""
    try:
        return tree if json.loads(json.dumps(tree)) == tree else None
    except (TypeError, ValueError):
        return None


def read_composed(attempt: Path) -> Mapping[str, Any]:
    """Read the configuration of an attempt as a tree; empty where none was written, or it cannot be read."""
    try:
        with (attempt / COMPOSED_FILE).open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return {}
    tree = _parse(text)
    return tree if isinstance(tree, dict) else {}


@lru_cache(maxsize=64)
def _parse(text: bytes) -> Any:
    """Parse each text once: several checks read the same one, and runs of one experiment often share it."""
    from rlx.yaml_reader.hydra import read_hydra
    from rlx.yaml_reader.reader import YamlError

    try:
        return read_hydra(text.decode("utf-8"))
    except (YamlError, UnicodeDecodeError):
        return None


def mismatches_of(
    plan: LaunchPlan, attempts: Sequence[Path], evidence: Evidence, parsed: ParsedFiles
) -> tuple[str, ...]:
    """Find settings that an attempt composed differently from its plan; none without a recipe or a configuration."""
    if not plan.has_recipe or plan.backend not in by_kind():
        return ()
    first = next((begun.attempt for begun in evidence.begun if begun.lineage and begun.lineage.step == 0), 1)
    numbered = list(enumerate(attempts, start=1))[first - 1 :]
    found = [(number, words) for number, folder in numbered for words in _of_attempt(plan, number, folder, parsed)]
    return tuple(words if len(numbered) == 1 else f"attempt {number}: {words}" for number, words in found)


def _of_attempt(plan: LaunchPlan, number: int, folder: Path, parsed: ParsedFiles) -> Sequence[str]:
    """Cache the comparison by the content of the file."""
    file = folder / COMPOSED_FILE
    if not file.exists():
        return ()
    if not (digest := digest_of_files([file])):
        return _compared(plan, number, folder)
    of = digest, plan.command, plan.recipe.get("overrides")
    found: list[str] = parsed.cached(("settings", file), of, lambda: _compared(plan, number, folder))
    return found


def _compared(plan: LaunchPlan, number: int, folder: Path) -> list[str]:
    """Compare one attempt; a further one may differ in where it continues."""
    composed = read_composed(folder)
    if not composed:
        return []
    part = loadable_part(plan.backend, "resume") if number > 1 else None
    planned = by_kind()[plan.backend].planned_settings(plan.command, plan.recipe)
    return list(setting_mismatches(planned, composed, part.KEYS if part else ()))


def reconfigured(kind: str, attempts: Sequence[Path], parsed: ParsedFiles) -> tuple[str, ...]:
    """Find settings that differ between attempts, such as `attempt 2: data.seed 1 → 2`; none without configurations."""
    if len(attempts) < 2:
        return ()
    part = loadable_part(kind, "resume")
    free: Sequence[str] = part.KEYS if part else ()
    found = [(folder.name, dict(_leaves("", configurations(folder, parsed).get("config", {})))) for folder in attempts]
    configured = [(name, leaves) for name, leaves in found if leaves]
    return tuple(
        f"attempt {name}: {key} {_short(configured[0][1].get(key))} → {_short(leaves.get(key))}"
        for name, leaves in configured[1:]
        for key in sorted(configured[0][1].keys() | leaves.keys())
        if key not in free and configured[0][1].get(key) != leaves.get(key)
    )


def _leaves(prefix: str, tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), value)
    elif prefix:
        yield prefix, tree


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:_SHOWN]


def setup_of(plan: LaunchPlan, latest: Path | None, parsed: ParsedFiles, sent: Mapping[str, str]) -> Setup:
    """Return the setup of a run by its plan and the folder of its latest attempt.

    Without a recipe it is the configuration that the trainer of a launched script printed; empty where that is not all
    of it. `sent`: the digests of its files by their paths, as its manifest has them.
    """
    if latest is None:
        return UNKNOWN_SETUP
    if not plan.has_recipe:
        printed = printed_configuration(latest, parsed) if plan.is_launched else {}
        if not whole_configuration(printed):
            return UNKNOWN_SETUP
        keys = frozenset(bare_leaves(printed))
        return Setup({}, (), printed, True, keys, found_at_start(latest), sent)
    if plan.backend not in by_kind():
        return UNKNOWN_SETUP
    planned = list(by_kind()[plan.backend].planned_settings(plan.command, plan.recipe))
    composed = composed_configuration(latest, parsed)
    return Setup(
        plan.recipe,
        plan.treatment,
        composed or tree_of(planned),
        bool(composed),
        frozenset(bare_key(key) for key, _ in planned),
        found_at_start(latest),
        sent,
    )


def digest_of_setup(latest: Path | None) -> str:
    """Digest the files that `setup_of` reads; empty while they are being written."""
    return digest_of_files([latest / COMPOSED_FILE, latest / PRINTED_FILE, latest / PROVENANCE_FILE]) if latest else ""


def found_at_start(latest: Path) -> Mapping[str, Any]:
    """Read what an attempt found on its host; empty if it ended before it could write that."""
    try:
        found = parse_json(read_bytes(latest / PROVENANCE_FILE, _MOST_PROVENANCE))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
