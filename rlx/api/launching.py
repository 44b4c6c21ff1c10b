"""Launch plans that the preflight let pass."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.plans import Plans
    from rlx.runs import Launched, RunRef

MANY_RUNS = 8


def launch(plans: Plans, *, secrets: Mapping[str, str] | None = None, strict: bool = False) -> Launched:
    """Start every run of the plans and return while they run. `secrets` default to the environment's.

    Raises UsageError or RlxError (exit 5) for plans against which something speaks, and if a secret is missing or the
    host refuses. Of a sweep, the hosts that do not refuse start their share all the same.
    """
    from rlx.api.home import rlx_home
    from rlx.runs import launch as launch_plans

    plans.refuse(strict)
    values = os.environ if secrets is None else secrets
    if plans.deal is None:
        return launch_plans(plans.plans, values, rlx_home())
    from rlx.api.sweep_file import keep_sweep, only_one

    with only_one(rlx_home(), wait=True):
        keep_sweep(rlx_home(), plans)
        return launch_plans(plans.plans, values, rlx_home(), plans.deal.asked)


def earlier_attempts(plans: Plans, launched: Launched) -> tuple[RunRef, ...]:
    """Find the runs that these arms had with these seeds since their experiment was registered, before this launch."""
    from rlx.api.selection import open_index
    from rlx.runs.index.registrations import known_here
    from rlx.runs.run import utc_text

    asked = plans.registration
    if asked is None:
        return ()
    index = open_index()
    known = known_here(index.home, asked)
    since = known.registered if known else ""
    ids = {ref.run_id for ref in launched}
    slots = {(plan.name, plan.arm, plan.seed) for plan in plans.plans}
    return tuple(
        ref
        for ref in index.runs()
        if (ref.name, ref.arm, ref.seed) in slots and ref.run_id not in ids and utc_text(ref.created) >= since
    )


def note_agreed(sent: Iterable[tuple[str, str]], plan: str) -> None:
    """Write down which secrets of a written plan go where without that anybody was asked; names, never values.

    `sent`: names and destinations. The journal is `agreed.jsonl` in rlx's home. Raises RlxError where it cannot be
    written, because then nothing would tell of it.
    """
    from rlx.api.home import rlx_home

    path = rlx_home() / "agreed.jsonl"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [json.dumps({"time": now, "secret": name, "to": place, "plan": plan}) for name, place in sent]
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise RlxError(f"{path}: {error.strerror}", "rlx notes there which secrets -y agreed to send") from None


def size_of(plans: Plans) -> str:
    """How much a launch starts, for who is asked: `10 runs of 8 × npu each`."""
    kinds = dict.fromkeys(f"{plan.devices * len(plan.nodes)} × {plan.device_kind}" for plan in plans.plans)
    return f"{len(plans.plans)} runs of {' or '.join(kinds)} each"
