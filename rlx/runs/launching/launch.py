"""Launches plans: journal, ship, start. One round trip a host, all hosts at once, and truthful whenever rlx dies.

The runs are journaled before anything is shipped. On the host, each run directory is built aside and renamed, then
its holder is started; a run that has no directory is no run. The same plans launched again, while the journal does
not know how the launch went, complete it under the same ids. Of runs of several nodes the workers go first: they wait
for their head.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.hosts import Completed, transport_for
from rlx.hosts.host_errors import HostError
from rlx.model import LaunchPlan, RunState, Severity, Site, to_jsonable
from rlx.model.launch_plan import is_sealed
from rlx.payload.mask_secrets import SHORTEST, SHORTEST_NUMBER
from rlx.runs.index.registrations import with_registrations
from rlx.runs.index.run_index import Index
from rlx.runs.index.tables import PendingLaunch
from rlx.runs.launching.cluster import ray_tokens
from rlx.runs.launching.delivery import deliver, started_ids
from rlx.runs.launching.shares import Part, Share, shares_of, sites_of
from rlx.runs.launching.shipment import check_plan, pack, pick_secrets, promised, short_secrets
from rlx.runs.looking.fan_out import at_once
from rlx.runs.looking.look import look
from rlx.runs.looking.observation import Observation
from rlx.runs.run import RunRef, new_launch_id, new_ref, worker_ref
from rlx.runs.stop import stop

_MOST_LINES = 5
_REPEAT_S = 3600.0
_UNCHECKED = "the rules have not judged this plan, or it was changed since, or another version of rlx made it"
_UNMASKED = (
    f"the secret {{}} has fewer than {SHORTEST} bytes, or fewer than {SHORTEST_NUMBER} and digits alone: its value "
    "is not masked where the run shows it"
)
_BY_PREFLIGHT = "plan it with rlx.plan, or rlx plan RECIPE --json and rlx launch --plan FILE"


@dataclass(frozen=True, slots=True)
class Launched:
    """The runs in the order of the plans. `completed` is True if an interrupted launch was brought to its end."""

    launch_id: str
    runs: tuple[RunRef, ...]
    completed: bool = False
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[RunRef]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, number: int) -> RunRef:
        return self.runs[number]


def launch(plans: Sequence[LaunchPlan], secrets: Mapping[str, str], home: Path, asked: str = "") -> Launched:
    """Start every plan on its host, in order, and return at once. `secrets` are the values for the plans' names.

    Plans of one node each may go to several hosts. `asked` says what was typed, where that is the same launch whatever
    host takes which run. Raises UsageError before anything is written if a plan cannot be launched or a secret is
    missing, RlxError (exit 5) for a plan that has not passed the preflight; RlxError if a host refuses, and then no run
    that did not start is left behind.
    """
    _check(plans, secrets)
    index = Index(home)
    registered = with_registrations(home, plans)
    # By the plans as they were made: typed again, they are the same launch, whenever that is.
    pending = _journal(index, plans, asked)
    tokens = ray_tokens(home, pending.runs) if plans[0].workers else {}
    shares = shares_of(index, pending, registered, is_sweep=bool(asked))
    index.promise([row for part in chain.from_iterable(shares) for row in promised(part.runs)])
    answers = _deliver_all(index, pending, shares, lambda part: pack(part.runs, secrets, tokens))
    heads = tuple(ref for ref in pending.runs if not ref.node)
    if len(plans) == len(heads):
        index.resolve_launch(pending.launch_id)
    warnings = tuple(answer.removeprefix("warning ") for answer in answers if answer.startswith("warning "))
    warnings += tuple(_UNMASKED.format(name) for name in _short_secrets(plans, secrets))
    return Launched(pending.launch_id, heads, not pending.is_new, tuple(dict.fromkeys(warnings)))


def _short_secrets(plans: Sequence[LaunchPlan], secrets: Mapping[str, str]) -> dict[str, None]:
    return dict.fromkeys(name for plan in plans for node in plan.nodes for name in short_secrets(node, secrets))


def _deliver_all(
    index: Index, pending: PendingLaunch, shares: Sequence[Share], pack: Callable[[Part], bytes]
) -> list[str]:
    """The hosts' answers, all shares at once. Raises RlxError."""
    alone = len(shares) == 1

    def start(share: Share) -> list[str]:
        return [answer for part in share for answer in _start(index, pending, part, pack(part), alone=alone)]

    if alone:
        return start(shares[0])
    done = at_once(shares, start)
    failures = [one for one in done if isinstance(one, RlxError)]
    answers = [answer for one in done if isinstance(one, list) for answer in one]
    if failures:
        raise _partly(failures, answers)
    return answers


def _partly(failures: Sequence[RlxError], answers: Sequence[str]) -> RlxError:
    """Say of a sweep which hosts took their share and which did not."""
    started = started_ids(answers)
    text = "\n".join(failure.message for failure in failures)
    hint = f"these runs did start: {', '.join(started)}; " if started else ""
    return RlxError(text, f"{hint}the same launch again starts the rest, and nothing twice", failures[0].exit_code)


def _start(index: Index, pending: PendingLaunch, part: Part, archive: bytes, *, alone: bool) -> list[str]:
    """The host's answers. `alone`: nothing of this launch goes to other hosts at the same time. Raises RlxError."""
    try:
        completed = deliver(part, pending.launch_id, archive)
    except HostError as error:
        raise _cut_off(index, pending, part, error, alone=alone) from None
    answers = completed.out.decode(errors="replace").splitlines()
    if completed.code != 0:
        if alone and pending.is_new and not started_ids(answers):
            _take_back(index, pending, part)
        raise _refusal(part.site, completed, answers)
    return answers


def _take_back(index: Index, pending: PendingLaunch, failed: Part) -> None:
    """Stop the workers that went before a part of which nothing has started, because they have no head to wait for."""
    for ref in pending.runs:
        if ref.node and (failed.node == 0 or ref.node < failed.node):
            # One that cannot be reached ends by itself, when it has waited long enough.
            with suppress(RlxError):
                stop(ref, 0)
    index.forget(pending.launch_id)


def _check(plans: Sequence[LaunchPlan], secrets: Mapping[str, str]) -> None:
    if not plans:
        raise UsageError("there is nothing to launch", "name at least one arm")
    if any(plan.workers and sites_of(plan) != sites_of(plans[0]) for plan in (*plans, plans[0])):
        raise UsageError("the plans name several hosts or roots", "launch each host's plans by themselves")
    for plan in plans:
        for node in plan.nodes:
            _check_node(node, secrets)
        if not is_sealed(plan):
            raise RlxError(f"{plan.run_name}: {_UNCHECKED}", _BY_PREFLIGHT, ExitCode.PREFLIGHT_FAILED)


def _check_node(plan: LaunchPlan, secrets: Mapping[str, str]) -> None:
    check_plan(plan)
    pick_secrets(plan, secrets)
    for finding in plan.findings:
        if finding.severity is Severity.ERROR:
            raise RlxError(f"{plan.run_name}: {finding.id} {finding.message}", finding.fix, ExitCode.PREFLIGHT_FAILED)
    transport_for(plan.site.place)


def unfinished(index: Index, asked: str) -> PendingLaunch | None:
    """The launch that was interrupted after it was asked for in these words, unless it is over."""
    pending = index.pending(asked)
    if pending is not None and _is_history(_seen(index, pending.runs), time.time() - pending.runs[0].created):
        # It had arrived after all, and is over: whoever launches these plans now wants them to run again.
        index.resolve_launch(pending.launch_id)
        return None
    return pending


def _journal(index: Index, plans: Sequence[LaunchPlan], asked: str) -> PendingLaunch:
    asked = asked or hashlib.sha256(json.dumps(to_jsonable(plans), sort_keys=True).encode()).hexdigest()
    unfinished(index, asked)
    now = time.time()
    launch_id = new_launch_id(now)
    return index.begin(asked, launch_id, [ref for plan in plans for ref in _new_refs(plan, launch_id, now)])


def _seen(index: Index, refs: Sequence[RunRef]) -> list[Observation]:
    return [sight.observation for sight in look(index, refs).values()]


def _new_refs(plan: LaunchPlan, launch_id: str, now: float) -> list[RunRef]:
    head = new_ref(plan, launch_id, now)
    return [head, *(worker_ref(head, worker) for worker in plan.workers)]


def _is_history(seen: Sequence[Observation], age_s: float) -> bool:
    """Tell whether the launch is over for good. Soon after an interruption it is typed again because nobody knows."""
    stopped = any(found.state is RunState.STOPPED for found in seen)
    return all(map(_has_run, seen)) and (stopped or age_s > _REPEAT_S)


def _has_run(seen: Observation) -> bool:
    return seen.state is RunState.STOPPED or (seen.state.is_terminal and seen.started_epoch is not None)


def _cut_off(index: Index, pending: PendingLaunch, part: Part, error: HostError, *, alone: bool) -> HostError:
    """Conclude from no answer: nothing happened, or nobody knows; only then it stays in the journal."""
    again = "the same launch again completes it and starts nothing twice"
    if error.arrived:
        return HostError(
            f"{error.message}\nthe launch to {part.site.host} may have started",
            f"{again}; rlx status --host {part.site.host} shows what is there",
        )
    if not pending.is_new:
        return HostError(f"{error.message}\nan earlier attempt of this launch may have started", again)
    if not alone:
        return HostError(f"{error.message}\nnothing was launched there", error.hint)
    _take_back(index, pending, part)
    return HostError(f"{error.message}\nnothing was launched", error.hint)


def _refusal(site: Site, completed: Completed, answers: Sequence[str]) -> RlxError:
    complaint = _shortened(completed.err.decode(errors="replace").strip()) or f"exit {completed.code}"
    started = started_ids(answers)
    hint = f"these runs did start: {', '.join(started)}; the same launch again starts the rest" if started else ""
    return RlxError(f"{site.host}: the launch to {site.root} failed: {complaint}", hint)


def _shortened(complaint: str) -> str:
    """The first lines: on a full disk, tar complains about every single file."""
    lines = complaint.splitlines()
    more = [f"(and {len(lines) - _MOST_LINES} more lines)"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])
