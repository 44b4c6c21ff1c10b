"""Look at the hosts of a sweep, all at once: what each would make of the runs, and how much room it has for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlx.api.dealing import Room
from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.plans import Draft
    from rlx.api.target import Target
    from rlx.model import Finding, Installation, LaunchPlan
    from rlx.planning.host_query import QueriedHost
    from rlx.recipe import ResolvedRecipe
    from rlx.runs import Leases


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A host that takes no part: the findings that speak against it, or why it could not be asked."""

    host: str
    why: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepHost:
    """A host that takes part. `trees`: by the number of the recipe, the back-end that it would import there."""

    target: Target
    resolved: Sequence[ResolvedRecipe]
    trees: Sequence[Installation | None]
    looks: tuple[QueriedHost, ...]
    room: Room

    @property
    def name(self) -> str:
        return self.target.host.name

    def drafts(self, block: Sequence[ResolvedRecipe]) -> list[Draft]:
        """Plan these for this host."""
        from rlx.api.planning import plan_on
        from rlx.api.plans import Draft

        trees = {id(one): tree for one, tree in zip(self.resolved, self.trees, strict=True)}
        return [Draft(plan_on(one, self.target, trees[id(one)]), trees[id(one)]) for one in block]


def look_at_hosts(
    targets: Sequence[Target], resolved: Sequence[ResolvedRecipe], first: Sequence[ResolvedRecipe], strict: bool
) -> tuple[list[SweepHost], list[LeftOut]]:
    """Hold the `first` block against every host; what all of them have in common is found by it.

    Raises UsageError for what no host can mend.
    """
    from rlx.runs.queries import in_parallel

    answers = in_parallel(targets, lambda target: _look(target, resolved, first, strict))
    for problem in (one for one in answers if isinstance(one, RlxError)):
        raise problem
    there = [one for one in answers if isinstance(one, SweepHost)]
    return there, [one for one in answers if isinstance(one, LeftOut)]


def _look(
    target: Target, resolved: Sequence[ResolvedRecipe], first: Sequence[ResolvedRecipe], strict: bool
) -> SweepHost | LeftOut:
    from rlx.api.plans import Plans
    from rlx.hosts.host_errors import HostError

    try:
        found = _examined(target, resolved)
        drafts = found.drafts(first)
        if fatal := Plans(tuple(drafts), found.looks).fatal(strict):
            return LeftOut(found.name, "; ".join(f"{finding.id} {finding.message}" for finding in fatal), fatal)
        return replace(found, room=_room(found, [draft.plan for draft in drafts]))
    except HostError as error:
        name = target.host.name
        return LeftOut(name, error.message.splitlines()[0].removeprefix(f"{name}: "))


def _examined(target: Target, resolved: Sequence[ResolvedRecipe]) -> SweepHost:
    """Raises HostError."""
    from rlx.api.host_check import HostLooks
    from rlx.api.planning import find_backends

    looks = HostLooks(target)
    found = find_backends(looks, resolved, target)
    place = looks.found()
    return SweepHost(place, resolved, found(), looks.result(), Room(target.host.name, 1, 0))


def _room(found: SweepHost, plans: Sequence[LaunchPlan]) -> Room:
    """Raises HostError."""
    from rlx.runs import query_leases

    site, kind = found.target.site, plans[0].device_kind
    leases = query_leases(site.place, site.leases)
    devices = max(plan.devices for plan in plans)
    return Room(found.name, max(1, (_devices(found, kind) - _taken(leases, kind)) // devices), _ahead(leases, kind))


def _devices(found: SweepHost, kind: str) -> int:
    """As many as its entry says, or a look at it found; 0 where nobody knows."""
    declared = found.target.host.device
    if kind == "cpu":
        return 1
    if declared and declared.count is not None:
        return declared.count
    sides = (look.results.environment for look in found.looks)
    return max((len(side.of("devices").get("numbers") or ()) for side in sides if side), default=0)


def _taken(leases: Leases, kind: str) -> int:
    """Those that no run can have, because somebody uses them without asking."""
    return len({one.device for one in leases.foreign if one.kind == kind})


def _ahead(leases: Leases, kind: str) -> int:
    held = {one.run_id for one in leases.held if one.kind == kind}
    return len(held | {one.run_id for one in leases.waiting if one.kind == kind})
