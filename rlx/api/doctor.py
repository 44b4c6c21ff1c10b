"""Examine one host: all that it has, and with a recipe the findings that a launch of it there would have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.hosts import Target
    from rlx.errors import ExitCode
    from rlx.model import Finding
    from rlx.planning.probing.probe import ProbeResults

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found; `notes` tell of the folders there."""

    results: ProbeResults
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def exit_code(self) -> ExitCode | None:
        """None if no finding is an error."""
        from rlx.planning.preflight import exit_code, fatal

        errors = fatal(self.findings)
        return exit_code(errors) if errors else None


def examine_host(host: str, container: str | None = None, recipe: str | None = None, *, trust: bool = False) -> Checkup:
    """Look at a host, and plan every arm of the recipe there as a launch would. Raises UsageError, HostError.

    `trust` as for `plan`.
    """
    from rlx.api.hosts import named_target

    target = named_target(host, container, consents=trust)
    found = _with_recipe(target, recipe) if recipe else _without(target)
    return replace(found, findings=(*_about_rlx(), *found.findings))


def _about_rlx() -> Iterator[Finding]:
    """Find files of this rlx installation that another package owns or that were replaced: check them first."""
    from rlx.installed import replaced_files
    from rlx.model import Finding, Severity
    from rlx.other_owners import DISTRIBUTION, other_owners

    owners, replaced = other_owners(), replaced_files()
    if not (owners or replaced):
        return
    names = " ".join(name.partition(" ")[0] for name in owners)
    words = [f"{', '.join(owners)} also brings a package or command rlx"] if owners else []
    shown = ", ".join(replaced[:_MOST_NAMED]) + (", …" if len(replaced) > _MOST_NAMED else "")
    words += [f"{len(replaced)} files of rlx are not those that were installed: {shown}"] if replaced else []
    all_names = f"{names} {DISTRIBUTION}".strip()
    fix = f"pip uninstall {all_names}, then install rlx again from its checkout or wheel"
    yield Finding("RLX413", Severity.WARNING, "; ".join(words), fix, "this machine")


def _without(target: Target) -> Checkup:
    from rlx.hosts import transport_for
    from rlx.model import Place
    from rlx.planning.host_query import findings_of, query_site
    from rlx.planning.host_requirements import HostRequirements

    place = target.site.place
    # The host itself is queried, also where runs are in a container: the probes for the container are sent along.
    outside = Place(place.host, place.destination, place.via)
    results = query_site(transport_for(outside), target.site, HostRequirements(declared=target.declared))
    return Checkup(results, findings_of(results))


def _with_recipe(target: Target, recipe: str) -> Checkup:
    from rlx.api.hosts import HostQueries
    from rlx.api.planning import plan_at
    from rlx.planning.host_requirements import HostRequirements
    from rlx.planning.probing.probe import ProbeResults, Side

    plans = plan_at(recipe, (), (), (), target, HostQueries(target))
    # A host whose entry lacks the devices is not waited for.
    results = plans.looks[0].results if plans.looks else ProbeResults(target.site, HostRequirements(), Side())
    return Checkup(results, plans.findings, plans.notes)
