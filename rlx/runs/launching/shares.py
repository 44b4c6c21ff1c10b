"""Divide a launch into what each host gets: one part a node of the runs, the workers before their heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rlx.errors import RlxError
from rlx.plan import LaunchPlan, Site
from rlx.runs.index.tables import PendingLaunch
from rlx.runs.launching import shipment
from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a run with its place in the launch."""

    plan: LaunchPlan
    ref: RunRef
    position: int


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a launch that goes to one host: the same node of every run."""

    nodes: tuple[Node, ...]

    @property
    def plans(self) -> tuple[LaunchPlan, ...]:
        return tuple(node.plan for node in self.nodes)

    @property
    def refs(self) -> tuple[RunRef, ...]:
        return tuple(node.ref for node in self.nodes)

    @property
    def positions(self) -> tuple[int, ...]:
        return tuple(node.position for node in self.nodes)

    @property
    def site(self) -> Site:
        return self.nodes[0].plan.site

    @property
    def node(self) -> int:
        return self.nodes[0].ref.node

    def promised(self) -> list[tuple[str, str, str]]:
        """What the index keeps of them."""
        return shipment.promised(self.plans, self.refs, self.positions)

    def packed(self, secrets: Mapping[str, str], tokens: Mapping[str, str]) -> bytes:
        """The archive that travels."""
        return shipment.pack(self.plans, self.refs, self.positions, secrets, tokens)

    def digest(self) -> str:
        """Sha256 of what the host's user will run and obey."""
        return shipment.digest(self.plans, self.refs)


Share: TypeAlias = tuple[Part, ...]
"""What goes to the hosts of the same runs, one after the other: the heads last."""


def sites_of(plan: LaunchPlan) -> list[Site]:
    """The places of its nodes."""
    return [node.site for node in plan.nodes]


def plan_nodes(pending: PendingLaunch, plans: Sequence[LaunchPlan]) -> list[Sequence[RunRef]]:
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


def positions_of(pending: PendingLaunch) -> dict[str, int]:
    """Of each run in its launch, by the id of its head."""
    return {run[0].head_id: position for position, run in enumerate(_by_head(pending.runs))}


def shares_of(
    plans: Sequence[LaunchPlan], runs: Sequence[Sequence[RunRef]], positions: Mapping[str, int]
) -> list[Share]:
    """A share for each set of hosts, in the order of the plans. `positions`: of the runs in the launch, by head."""
    shares: list[list[Node]] = []
    for plan, run in zip(plans, runs, strict=True):
        nodes = [Node(node, ref, positions[ref.head_id]) for node, ref in zip(plan.nodes, run, strict=True)]
        mine = next((share for share in shares if sites_of(share[0].plan) == sites_of(plan)), None)
        if mine is None:
            shares.append(mine := [])
        mine += nodes
    return [_parts(share) for share in shares]


def _parts(nodes: Sequence[Node]) -> Share:
    """The workers' hosts in order, and last the heads'."""
    numbers = sorted({node.ref.node for node in nodes})
    return tuple(Part(tuple(one for one in nodes if one.ref.node == number)) for number in (*numbers[1:], 0))
