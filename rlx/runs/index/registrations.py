"""Keep the experiments that were registered here: one file each, written once, with its time and author.

The index is a cache and may be rebuilt; that an experiment was registered before its runs cannot be.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rlx.errors import RlxError, UsageError
from rlx.local_files import parse_json, read_bytes
from rlx.model import LaunchPlan, Registration, from_jsonable, to_jsonable
from rlx.model.registration import FORM
from rlx.runs.manifest import submitter
from rlx.runs.run import utc_text

FOLDER = "experiments"
_MOST_BYTES = 1 << 20
_LOST = "the experiment then counts as registered now"


def with_registrations(home: Path, plans: Sequence[LaunchPlan]) -> list[LaunchPlan]:
    """Add to each plan when and by whom its experiment was registered; a new experiment is registered now.

    Raises RlxError if it cannot be written, or is damaged.
    """
    registrations = {plan.registration for plan in plans if plan.registration}
    known = {one: _registered(home, one) for one in registrations}
    return [_stamped(plan, known.get(plan.registration)) if plan.registration else plan for plan in plans]


def read_registrations(home: Path) -> tuple[Registration, ...]:
    """Read all experiments that were registered here, the newest first, without damaged ones."""
    found = []
    for path in (home / FOLDER).glob("*.json"):
        with suppress(RlxError):
            found.append(_read(path))
    return tuple(sorted(found, key=lambda one: (one.registered, one.name), reverse=True))


def known_here(home: Path, registration: Registration) -> Registration | None:
    """Return the registration of an experiment here, in any form; the earliest of several."""
    known = [one for one in read_registrations(home) if one.is_same(registration)]
    return known[-1] if known else None


def same_question(home: Path, registration: Registration) -> tuple[Registration, ...]:
    """Return other experiments with the same question: the same metric, test and arms.

    Their names, seeds and wordings may differ.
    """
    return tuple(
        one
        for one in read_registrations(home)
        if not one.is_same(registration) and _question(one) == _question(registration)
    )


def _question(one: Registration) -> tuple[object, ...]:
    arms = frozenset((arm.treatment, arm.recipe) for arm in one.arms)
    return one.metric, one.at, one.test, one.margin, one.kind, arms


def registered_digest(path: Path) -> str | None:
    """Return the digest of the question in a file, which should be its name; None if it holds no registration."""
    try:
        return _read(path).digest
    except RlxError:
        return None


def _stamped(plan: LaunchPlan, registration: Registration | None) -> LaunchPlan:
    workers = tuple(_stamped(worker, registration) for worker in plan.workers)
    return replace(plan, registration=registration, workers=workers)


def _registered(home: Path, registration: Registration) -> Registration:
    """Return the registration with the time when it was first registered here."""
    path = home / FOLDER / f"{registration.digest}.json"
    if not path.exists():
        if earlier := known_here(home, registration):
            return earlier
        _write_once(
            path, replace(registration, registered=utc_text(time.time()), by="{user}@{machine}".format(**submitter()))
        )
    known = _read(path)
    if known.digest != registration.digest:
        raise RlxError(f"{path} describes another experiment than its name says", f"move it away: {_LOST}")
    return known


def _write_once(path: Path, registration: Registration) -> None:
    """Write the file unless it exists: the first registration counts."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch.write_text(json.dumps(to_jsonable(registration), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        with suppress(FileExistsError):
            os.link(scratch, path)
        scratch.unlink()
    except OSError as error:
        raise RlxError(f"{path}: {error.strerror}", "rlx records there what is registered before a launch") from None


def _read(path: Path) -> Registration:
    try:
        known = from_jsonable(Registration, parse_json(read_bytes(path, _MOST_BYTES)))
        if known.form > FORM:
            raise ValueError(f"form {known.form}, and this rlx knows up to {FORM}")
        return known
    except (OSError, ValueError, UsageError) as problem:
        reason = problem.message if isinstance(problem, UsageError) else getattr(problem, "strerror", None) or problem
        raise RlxError(f"{path}: no registration can be read ({reason})", f"move it away: {_LOST}") from None
