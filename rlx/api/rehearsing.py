"""Smoke-test a recipe: make a tiny model and data, launch its plan like any other, and read its evidence."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.api.runs import unheard
from rlx.errors import RlxError
from rlx.model import LaunchPlan, PlannedFile, Severity

if TYPE_CHECKING:
    from rlx.api.recipes import Recipe
    from rlx.api.runs import Tell
    from rlx.evidence.smoke_test_result import SmokeTestResult
    from rlx.planning.rehearsal import Rehearsal, RehearsalEngine
    from rlx.planning.tiny_shapes import TinyModel
    from rlx.recipe import ResolvedRecipe
    from rlx.runs import Index, RunRef

_GRACE_S = 5.0
_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RehearsalResult:
    """`folder` is the run directory; None: it passed, and was removed. `seconds`: from its launch to its end."""

    rehearsal: Rehearsal
    result: SmokeTestResult
    seconds: float
    folder: Path | None

    def answer(self) -> dict[str, Any]:
        """Write the answer for --json."""
        made = self.rehearsal
        return {
            "recipe": made.resolved.recipe.name,
            "arm": made.resolved.arm,
            "passed": self.result.passed,
            "seconds": round(self.seconds, 1),
            "factor": made.factor,
            "engine": made.engine.name,
            "model": {"type": made.model.model_type, "config": made.model.config},
            "changes": made.changes,
            "checks": self.result.checks,
            "not_rehearsed": made.untold,
            "findings": self.result.findings,
            "folder": str(self.folder) if self.folder else None,
        }


def rehearse(
    recipe: Recipe,
    arm: str | None = None,
    *,
    sets: Sequence[str] = (),
    engine: str | None = None,
    limit_s: float = 900.0,
    keep: bool = False,
    tell: Tell = unheard,
) -> RehearsalResult:
    """Train two steps of one arm with a tiny model on this machine's CPU, on the real back-end, and judge them.

    `arm` is the control by default; it is given up after `limit_s` seconds. `engine`: what generates; by default the
    recipe's own if it is there, else rlx's. `.result` has the checks and `passed`;
    `.folder` is the run directory if it did not pass, or `keep` says so. Raises UsageError for an invalid recipe,
    RlxError where a rehearsal cannot start. A KeyboardInterrupt comes through once nothing of the run is left.
    """
    from rlx.api.recipes import recipe_file

    file = recipe_file(recipe, sets)
    chosen = arm or file.control or file.arms[0]
    resolved = file.resolve(chosen)
    if others := [name for name in file.arms if name != chosen]:
        tell(f"arm {chosen}; by themselves: --arm {', --arm '.join(others)}")
    return rehearsed_run(resolved, limit_s, keep, tell, engine)


def rehearsed_run(
    resolved: ResolvedRecipe, limit_s: float, keep: bool, tell: Tell, engine: str | None = None
) -> RehearsalResult:
    """Run the rehearsal and judge it. Raises RlxError where it cannot start, KeyboardInterrupt after its end."""
    from rlx.planning.rehearsal import rehearser_of
    from rlx.planning.rules.travelling import reward_files

    # Nothing leaves this machine.
    resolved = replace(resolved, sendable=tuple(map(str, reward_files(resolved.recipe).values())))
    _refuse_invalid(resolved)
    _require_packages(resolved.recipe.backend.kind)
    generates = rehearser_of(resolved.recipe.backend.kind).engine_for(resolved, engine)
    folder = _new_folder()
    try:
        done = _run(resolved, generates, folder, limit_s, tell)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if done.result.passed and not keep:
        shutil.rmtree(folder, ignore_errors=True)
        return replace(done, folder=None)
    return done


def _refuse_invalid(resolved: ResolvedRecipe) -> None:
    from rlx.api.planning import refusal_code
    from rlx.model import finding_text
    from rlx.planning.rules import check

    errors = [finding for finding in check(resolved) if finding.severity is Severity.ERROR]
    if errors:
        text = "\n".join(finding_text(finding) for finding in errors)
        raise RlxError(text, "correct it first, or waive it: rlx validate", refusal_code(errors))


def _require_packages(kind: str) -> None:
    """Check the interpreter's packages. Raises RlxError where a rehearsal lacks one, UsageError where none is
    possible.
    """
    from rlx.planning.rehearsal import rehearser_of

    rehearser = rehearser_of(kind)
    package, needed = rehearser.NEEDED
    missing = [name for name in rehearser.PACKAGES if importlib.util.find_spec(name) is None]
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        missing.append(package)
        version = needed
    if missing:
        raise RlxError(f"a rehearsal needs {', '.join(missing)}, which {sys.executable} lacks", rehearser.FIX)
    if version != needed:
        raise RlxError(f"a rehearsal needs {package} {needed}, and {sys.executable} has {version}", rehearser.FIX)


def _new_folder() -> Path:
    from rlx.api.runs import rlx_home

    parent = rlx_home() / "rehearsals"
    folder = parent / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def _run(
    resolved: ResolvedRecipe, engine: RehearsalEngine, folder: Path, limit_s: float, tell: Tell
) -> RehearsalResult:
    from rlx.runs import Index, launch

    rehearsal = _prepared(resolved, engine, folder, tell)
    plan = _plan(rehearsal, folder)
    secrets = {name: os.environ[name] for name in plan.secret_names}
    begin = time.monotonic()
    with _stopped_at_the_end(folder, tell):
        (ref,) = launch([plan], secrets, folder / "home").runs
        index = Index(folder / "home")
        _await_end(index, ref, plan.backend, begin + limit_s, tell)
    seconds = time.monotonic() - begin
    return RehearsalResult(rehearsal, _judged(index, ref), seconds, folder)


def _prepared(resolved: ResolvedRecipe, engine: RehearsalEngine, folder: Path, tell: Tell) -> Rehearsal:
    """Return the rehearsal with its rows written and its model made."""
    from rlx.planning.rehearsal import Places, rehearsal_of, rehearser_of, write
    from rlx.planning.tiny_shapes import tiny_model_of

    rehearser = rehearser_of(resolved.recipe.backend.kind)
    order = model_order(tiny_model_of(resolved, engine.head_dim))
    places = Places(str(model_folder(order, rehearser.NEEDED[1])), str(folder / "data"))
    secrets = tuple(name for name in resolved.recipe.secrets if os.environ.get(name))
    rehearsal = rehearsal_of(resolved, places, secrets, engine)
    (folder / "data").mkdir()
    write(rehearsal.rows["train"], Path(places.train))
    write(rehearsal.rows["val"], Path(places.val))
    if not Path(places.model).exists():
        tell(f"making a {rehearsal.model.shown} (once, seconds)")
        make_model(order, Path(places.model), rehearser.FIX)
    return rehearsal


def _plan(rehearsal: Rehearsal, folder: Path) -> LaunchPlan:
    from rlx.backends.protocol import load_backend
    from rlx.hosts import local_site
    from rlx.planning.preflight import sealed_plan

    here = local_site()
    env = {**here.env, "HF_DATASETS_CACHE": str(folder / "datasets")}
    # Leases of its own, so that no run waits for another one. It needs no network, so no proxy's secrets.
    site = replace(here, root=str(folder), leases=str(folder / "leases"), container=None, env=env, proxies={})
    plan = load_backend(rehearsal.resolved.recipe.backend.kind).plan(rehearsal.resolved, site)
    files = tuple(PlannedFile(path, text) for path, text in rehearsal.files.items())
    return sealed_plan(replace(plan, files=(*plan.files, *files)), rehearsal.resolved)


@contextmanager
def _stopped_at_the_end(folder: Path, tell: Tell) -> Iterator[None]:
    """Stop the run whatever happens, so that nothing of it is left; one that has ended needs no stop."""
    from rlx.runs import Index, stop

    try:
        yield
    except KeyboardInterrupt:
        tell("\nstopping the rehearsal")
        raise
    finally:
        # A new index lists the user's other runs on this machine, too.
        for ref in Index(folder / "home").runs():
            if ref.root == str(folder):
                stop(ref, _GRACE_S)


def _await_end(index: Index, ref: RunRef, backend: str, deadline: float, tell: Tell) -> None:
    """Wait for the end, or for the deadline (monotonic); tell each step."""
    from rlx.runs.status.judged_snapshots import judged_snapshots

    told = ""
    while time.monotonic() < deadline:
        (row,) = judged_snapshots(index, [ref])
        if row.state.is_terminal:
            return
        now = f"step {row.steps_done} of {row.steps_total}" if row.steps_done else f"{backend} and Ray start"
        if now != told:
            tell(f"{time.strftime('%H:%M:%S')}  {now}")
            told = now
        time.sleep(_POLL_SECONDS)


def _judged(index: Index, ref: RunRef) -> SmokeTestResult:
    from rlx.evidence.smoke_test_result import read_reward_calls, rehearsed
    from rlx.runs import RunPaths
    from rlx.runs.judging.diagnose_runs import diagnose_runs
    from rlx.runs.judging.judge_runs import judge_runs

    (run,) = judge_runs(index, [ref])
    (diagnosed,) = diagnose_runs(index, [ref])
    rewards = read_reward_calls(RunPaths(ref.run_dir).latest)
    expected = run.plan.expectations
    return rehearsed(run.evidence, expected, run.verdict, run.state, rewards, diagnosed.diagnosis.cause)


def model_order(model: TinyModel) -> str:
    """Write the order for payload/tiny_model.py."""
    return json.dumps({"model_type": model.model_type, "chat": model.chat, "config": dict(model.config)})


def model_folder(order: str, version: str) -> Path:
    """Name the folder of the model made of this order by these programs, for this version of what trains it."""
    from rlx.api.runs import rlx_home

    parts = [order.encode(), version.encode(), *(program.read_bytes() for program in _programs())]
    return rlx_home() / "cache" / "models" / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _programs() -> tuple[Path, Path]:
    """Name the files that make a tiny model: the program, and what it imports."""
    from rlx.resources import payload_folder

    return payload_folder() / "tiny_model.py", payload_folder() / "tiny_addition.py"


def make_model(order: str, folder: Path, fix: str) -> None:
    """Make the folder, as a whole or not at all. Raises RlxError, with this fix, where the programs fail."""
    beside = folder.with_name(f".{folder.name}-{os.getpid()}")
    made = subprocess.run(
        [sys.executable, str(_programs()[0]), str(beside), order],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    if made.returncode:
        shutil.rmtree(beside, ignore_errors=True)
        said = made.stderr.strip().splitlines() or [f"exit {made.returncode}"]
        raise RlxError(f"the tiny model could not be made: {said[-1]}", fix)
    _keep(beside, folder)


def _keep(beside: Path, folder: Path) -> None:
    try:
        beside.rename(folder)
    except OSError:  # Another rehearsal was faster; what it made is the same.
        shutil.rmtree(beside, ignore_errors=True)
