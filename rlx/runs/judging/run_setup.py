"""Read what a run was set up with: its recipe, what its engine composed, and what it found at its start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx.evidence.cache.file_digest import digest_of_files
from rlx.evidence.charges.composed_settings import tree_of
from rlx.evidence.grammars import by_kind
from rlx.evidence.traces import UNKNOWN_SETUP, Setup
from rlx.local_files import parse_json, read_bytes
from rlx.model import LaunchPlan
from rlx.model.run_dir import COMPOSED_FILE, PROVENANCE_FILE
from rlx.runs.judging.composed_config import composed_configuration
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.yaml_reader.hydra import bare_key

_MOST_PROVENANCE = 64 << 20


def setup_of(plan: LaunchPlan, latest: Path | None, parsed: ParsedFiles, sent: Mapping[str, str]) -> Setup:
    """Return the setup of a run by its plan and the folder of its latest attempt; empty where no recipe planned it.

    `sent`: the digests of its files by their paths, as its manifest has them.
    """
    if not plan.has_recipe or plan.backend not in by_kind() or latest is None:
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
    """Name the files that `setup_of` reads, as they are now; empty while they are just written."""
    return digest_of_files([latest / COMPOSED_FILE, latest / PROVENANCE_FILE]) if latest else ""


def found_at_start(latest: Path) -> Mapping[str, Any]:
    """Read what an attempt found on its host; nothing if it ended before it could write that down."""
    try:
        found = parse_json(read_bytes(latest / PROVENANCE_FILE, _MOST_PROVENANCE))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
