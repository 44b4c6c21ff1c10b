"""Audit somebody's noise code: what its source says, and what it changes in real models when it is run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.audit import AuditOutcome, NoiseHook, PackageSource, Resolved

_MOST_STEPS = 5000


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the noise code is asked for: QeRL's own scripts by default."""

    sigma_start: float = 1e-2
    sigma_end: float = 1e-4
    stages: int = 10
    steps: int = 100


@dataclass(frozen=True, slots=True)
class EngineSource:
    """One version of a package: the classes of its Qwen2's norms, and whether the code's names mean one of them."""

    source: PackageSource
    norms: list[Resolved]
    matches: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What the source says. `matched`: what each class that the code names means, by version."""

    hook: NoiseHook
    matched: list[Resolved]
    engines: list[EngineSource]


@dataclass(frozen=True, slots=True)
class Runs:
    """What the code did. `fenced`: without network, and without sight of other processes."""

    python: str
    fenced: bool
    outcomes: list[AuditOutcome]


def read_noise_code(
    checkout: Path, *, file: str | None = None, python: str | None = None, sources: Sequence[Path] = ()
) -> Reading:
    """Find the noise code of a checkout and say which class each name means. Executes nothing of it.

    `sources` are folders with packages, unpacked wheels for example; the packages of `python` are looked at after
    them. Raises RlxError where the checkout has no noise code that rlx can call.
    """
    from rlx.audit import engine_classes, find_hook, matched_classes, packages_of, sources_in

    hook = find_hook(checkout, file)
    found = sources_in([*sources, *packages_of(python or sys.executable)])
    matched = matched_classes(hook, found)
    wanted = {resolved.bases[0] for resolved in matched}
    engines = [(each, engine_classes(each)) for each in found]
    return Reading(hook, matched, [EngineSource(each, norms, _means(wanted, norms)) for each, norms in engines])


def _means(wanted: set[str], norms: list[Resolved]) -> bool:
    """Whether `isinstance` would hold for one of these classes, by what each inherits from."""
    return any(wanted & set(norm.bases) for norm in norms)


def run_noise_code(
    hook: NoiseHook, *, python: str | None = None, schedule: Schedule | None = None, time_limit: float = 300
) -> Runs:
    """Execute the noise code beside transformers' Qwen2, and vLLM's where `python` has vLLM.

    Each engine has a process of its own, which is ended after `time_limit` seconds. Raises RlxError where `python`
    lacks transformers or the code leaves no answer.
    """
    from rlx.audit import AuditRequest, find_fence, packages_of, run_apart, sources_in

    asked, interpreter, fence = schedule or Schedule(), python or sys.executable, find_fence()
    _check(asked)
    there = {source.package for source in sources_in(packages_of(interpreter))}
    if "transformers" not in there:
        raise UsageError(f"{interpreter}: transformers is not installed there", "name an environment with --python")
    orders = [
        AuditRequest(engine, interpreter, asked.sigma_start, asked.sigma_end, asked.stages, asked.steps, time_limit)
        for engine in ("transformers", "vllm")
        if engine in there
    ]
    return Runs(interpreter, fence.closed, [run_apart(hook, order, fence) for order in orders])


def _check(schedule: Schedule) -> None:
    if schedule.stages < 3 or not 0 < schedule.steps <= _MOST_STEPS:
        raise UsageError(
            f"{schedule.stages} stages in {schedule.steps} steps: no schedule",
            f"three stages or more, in up to {_MOST_STEPS} steps",
        )
    if not (schedule.sigma_start > 0 and schedule.sigma_end > 0):
        raise UsageError("sigma is a standard deviation above 0", "the defaults are those of QeRL's scripts")
