"""Examine one host: all that it has, and with a recipe the findings that a launch of it there would have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.target import Target
    from rlx.errors import ExitCode
    from rlx.plan import Finding
    from rlx.preflight.probing.examined import Examined


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found; `notes` tell of the folders there."""

    examined: Examined
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def exit_code(self) -> ExitCode | None:
        """None if no finding is an error."""
        from rlx.preflight.preflight import exit_code, fatal

        errors = fatal(self.findings)
        return exit_code(errors) if errors else None


def examine_host(host: str, container: str | None = None, recipe: str | None = None, *, trust: bool = False) -> Checkup:
    """Look at a host, and plan every arm of the recipe there as a launch would. Raises UsageError, HostError.

    `trust` as for `plan`.
    """
    from rlx.api.target import named_target

    target = named_target(host, container, consents=trust)
    return _with_recipe(target, recipe) if recipe else _without(target)


def _without(target: Target) -> Checkup:
    from rlx.hosts import transport_for
    from rlx.plan import Place
    from rlx.preflight.doctor import examine, findings_of

    place = target.site.place
    # The host itself is asked, also where the runs lie in a container: the probes for that one go along.
    outside = Place(place.host, place.destination, place.via)
    examined = examine(transport_for(outside), target.site)
    return Checkup(examined, findings_of(examined))


def _with_recipe(target: Target, recipe: str) -> Checkup:
    from rlx.api.host_check import HostLooks
    from rlx.api.planning import plan_at
    from rlx.preflight.probing.examined import Examined
    from rlx.preflight.probing.probe import Side
    from rlx.preflight.wanted import Wanted

    plans = plan_at(recipe, (), (), (), target, HostLooks(target))
    # Nobody waits for a host that is said to lack the devices.
    examined = plans.looks[0].examined if plans.looks else Examined(target.site, Wanted(), Side())
    return Checkup(examined, plans.findings, plans.notes)
