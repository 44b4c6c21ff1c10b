"""Divide a launch into what each host gets: one part a node of the runs, the workers before their heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rlx.errors import RlxError
from rlx.model import LaunchPlan, Site
from rlx.runs.index.run_index import Index
from rlx.runs.index.tables import PendingLaunch
from rlx.runs.launching.shipped import Shipped, block_name
from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a launch that goes to one host: the same node of every run, or all nodes of those that are jobs."""

    runs: tuple[Shipped, ...]

    @property
    def site(self) -> Site:
        return self.runs[0].plan.site

    @property
    def node(self) -> int:
        return self.runs[0].ref.node


Share: TypeAlias = tuple[Part, ...]
"""What goes to the hosts of the same runs, one after the other: the heads last."""


def sites_of(plan: LaunchPlan) -> list[Site]:
    """The places of its nodes."""
    return [node.site for node in plan.nodes]


def _plan_nodes(pending: PendingLaunch, plans: Sequence[LaunchPlan]) -> list[Sequence[RunRef]]:
    """The references of each plan's nodes in the journal, where a launch of more runs may be brought to its end.

    Raises RlxError where a run was to go elsewhere when the launch was interrupted.
    """
    runs = _by_head(pending.runs)
    if len(runs) != len(plans):
        slots = {(run[0].arm, run[0].seed): run for run in runs}
        runs = [slots[plan.arm, plan.seed] for plan in plans]
    for plan, run in zip(plans, runs, strict=True):
        for site, ref in zip(sites_of(plan), run, strict=True):
            if (ref.place, ref.root) != (site.place, site.root):
                raise RlxError(f"{ref.run_id} was launched to {ref.host}:{ref.root} before, and may run there", _STOP)
    return runs


_STOP = "rlx status shows it; rlx stop ends it for good"


def _by_head(refs: Sequence[RunRef]) -> list[Sequence[RunRef]]:
    runs: dict[str, list[RunRef]] = {}
    for ref in refs:
        runs.setdefault(ref.head_id, []).append(ref)
    return list(runs.values())


def shares_of(index: Index, pending: PendingLaunch, plans: Sequence[LaunchPlan], *, is_sweep: bool) -> list[Share]:
    """A share for each set of hosts, in the order of the plans."""
    positions = {run[0].head_id: position for position, run in enumerate(_by_head(pending.runs))}
    moves = index.moves(pending.launch_id) if is_sweep else ()
    shares: list[list[Shipped]] = []
    for plan, run in zip(plans, _plan_nodes(pending, plans), strict=True):
        came = tuple(move for move in moves if move.seed == plan.seed and move.has_left)
        block = block_name(pending.launch_id, plan.seed, len(came)) if is_sweep else ""
        nodes = [
            Shipped(node, ref, positions[ref.head_id], block, came) for node, ref in zip(plan.nodes, run, strict=True)
        ]
        mine = next((share for share in shares if sites_of(share[0].plan) == sites_of(plan)), None)
        if mine is None:
            shares.append(mine := [])
        mine += nodes
    return [_parts(share) for share in shares]


def _parts(nodes: Sequence[Shipped]) -> Share:
    """The workers' hosts in order, and last the heads'; the nodes of a job in one, its head last as well."""
    if nodes[0].plan.site.batch is not None:
        return (Part(tuple(sorted(nodes, key=lambda one: (one.position, one.ref.node == 0)))),)
    numbers = sorted({node.ref.node for node in nodes})
    return tuple(Part(tuple(one for one in nodes if one.ref.node == number)) for number in (*numbers[1:], 0))
