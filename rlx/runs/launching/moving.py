"""Move a block of a sweep that has not begun: withdraw it from its host, then ship it to another one.

A block is one run of each arm with one seed; its runs share a host.

Withdrawing is one step on the host, either before or after the first of its runs begins
(`rlx/payload/supervise/72-withdraw.sh`). Only what the host reports as withdrawn is shipped elsewhere. The journal says
at every moment which host may have the block, so that any later call can continue the move.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlx.errors import RlxError
from rlx.hosts.host_errors import HostError
from rlx.model import LaunchPlan
from rlx.runs import supervisor
from rlx.runs.copies.mirror import folder_of
from rlx.runs.index.registrations import with_registrations
from rlx.runs.index.run_index import Index
from rlx.runs.index.tables import Move, MovePhase
from rlx.runs.launching.launch import Part, send_part, started_ids
from rlx.runs.launching.shipment import Shipped, block_name, check_plan, pack, pick_secrets, sent_manifests
from rlx.runs.run import RunRef, container_of

_WITHDRAW_S = 60.0


def withdraw(index: Index, move: Move, refs: Sequence[RunRef]) -> bool:
    """Withdraw the block of these runs from their host. False: one of them has begun, and the block stays.

    Raises RlxError if the host gives no answer: the result is then unknown, and the journal says so.
    """
    index.note_move(move)
    block = block_name(move.launch_id, move.seed, move.number - 1)
    at = refs[0]
    ids = [ref.run_id for ref in refs]
    answer = supervisor.call(at.place, "withdraw", at.root, block, *ids, timeout_s=_WITHDRAW_S).split()
    if answer == ["withdrawn"]:
        index.note_move(replace(move, phase=MovePhase.WITHDRAWN))
        return True
    if answer != ["started"]:
        raise RlxError(f"{at.host}: an unknown answer to the withdrawal of seed {move.seed}")
    index.drop_move(move)
    return False


def ship(
    index: Index,
    moves: Sequence[Move],
    plans: Sequence[LaunchPlan],
    refs: Sequence[tuple[int, RunRef]],
    secrets: Mapping[str, str],
) -> tuple[RunRef, ...]:
    """Queue a withdrawn block at the site of these plans, under its ids. `moves`: of the block, this one last.

    `refs`: the runs in the order of the plans, each with its position in the launch. Raises RlxError.
    """
    move = moves[-1]
    for plan in plans:
        check_plan(plan)
        pick_secrets(plan, secrets)
    moved = []
    for (position, ref), plan in zip(refs, plans, strict=True):
        site = plan.site
        moved.append((position, replace(ref, place=site.place, root=site.root, container=container_of(site))))
    block = block_name(move.launch_id, move.seed, move.number)
    registered = with_registrations(index.home, plans)
    runs = tuple(
        Shipped(plan, ref, position, block, tuple(moves))
        for plan, (position, ref) in zip(registered, moved, strict=True)
    )
    for run in runs:
        # The copy here is of a run directory that no longer exists.
        shutil.rmtree(folder_of(index) / run.ref.run_id, ignore_errors=True)
    index.relocate(replace(move, phase=MovePhase.SENT), [run.ref for run in runs])
    index.keep_manifests(sent_manifests(runs))
    _send(index, move, runs, pack(runs, secrets))
    index.note_move(replace(move, phase=MovePhase.DONE))
    return tuple(run.ref for run in runs)


def _send(index: Index, move: Move, runs: tuple[Shipped, ...], archive: bytes) -> None:
    """Send the runs; if they certainly did not arrive, they may go elsewhere. Raises RlxError."""
    host, withdrawn = runs[0].ref.host, replace(move, phase=MovePhase.WITHDRAWN)
    try:
        completed = send_part(Part(runs), move.launch_id, archive)
    except HostError as error:
        if not error.arrived:
            index.note_move(withdrawn)
        raise
    started = started_ids(completed.out.decode(errors="replace").splitlines())
    if len(started) < len(runs):
        if not started:
            index.note_move(withdrawn)
        complaint = completed.err.decode(errors="replace").strip().splitlines() or [f"exit {completed.code}"]
        raise RlxError(f"{host}: it did not accept the runs of seed {move.seed}: {complaint[0]}")
