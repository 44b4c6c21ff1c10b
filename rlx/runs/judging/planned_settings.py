"""Find where an attempt composed other settings than its plan sets: what was trained is not what was planned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlx.backends.registry import loadable_part
from rlx.evidence import Evidence
from rlx.evidence.cache.file_digest import digest_of_files
from rlx.evidence.charges.composed_settings import setting_mismatches
from rlx.evidence.grammars import by_kind
from rlx.model import LaunchPlan
from rlx.model.run_dir import COMPOSED_FILE
from rlx.runs.judging.composed_config import read_composed
from rlx.runs.judging.parser_cache import ParsedFiles


def mismatches_of(
    plan: LaunchPlan, attempts: Sequence[Path], evidence: Evidence, parsed: ParsedFiles
) -> tuple[str, ...]:
    """Check each attempt that counts; nothing where the plan has no recipe, or an attempt left no configuration."""
    if not plan.has_recipe or plan.backend not in by_kind():
        return ()
    first = next((begun.attempt for begun in evidence.begun if begun.lineage and begun.lineage.step == 0), 1)
    numbered = list(enumerate(attempts, start=1))[first - 1 :]
    found = [(number, words) for number, folder in numbered for words in _of_attempt(plan, number, folder, parsed)]
    return tuple(words if len(numbered) == 1 else f"attempt {number}: {words}" for number, words in found)


def _of_attempt(plan: LaunchPlan, number: int, folder: Path, parsed: ParsedFiles) -> Sequence[str]:
    """Compare again only where the file has changed."""
    file = folder / COMPOSED_FILE
    if not file.exists():
        return ()
    if not (digest := digest_of_files([file])):
        return _compared(plan, number, folder)
    of = digest, plan.command, plan.recipe.get("overrides")
    found: list[str] = parsed.remembered(("settings", file), of, lambda: _compared(plan, number, folder))
    return found


def _compared(plan: LaunchPlan, number: int, folder: Path) -> list[str]:
    """Another attempt may differ in where it goes on."""
    composed = read_composed(folder)
    if not composed:
        return []
    part = loadable_part(plan.backend, "resume") if number > 1 else None
    planned = by_kind()[plan.backend].planned_settings(plan.command, plan.recipe)
    return list(setting_mismatches(planned, composed, part.KEYS if part else ()))
