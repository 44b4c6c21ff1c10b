"""Check a launch before it starts anything: the one preflight of `rlx plan`, `rlx launch` and `rlx doctor --recipe`.

The rules check a plan when it is made (`sealed_plan`); one query checks its host (host_query.py). `preflight` lists the
findings of both, in the order in which every command shows them. A command exits with code 2 for an error in the recipe
itself, or if the recipe does not fit the named place; with errors of the host or of rules alone it exits with code 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import ExitCode
from rlx.model import Finding, LaunchPlan, Severity
from rlx.model.launch_plan import seal
from rlx.planning.script_lines import script_findings
from rlx.shell_reader.contained_commands import Reach

if TYPE_CHECKING:
    from rlx.model import Installation
    from rlx.planning.host_query import QueriedHost
    from rlx.recipe import ResolvedRecipe

_ORDER = tuple(Severity)
# Findings of the probes of a host; RLX500 to RLX505 compare the recipe with the entry of the host.
_OF_THE_HOST = range(506, 560)


def sealed_plan(
    plan: LaunchPlan,
    resolved: ResolvedRecipe | None = None,
    found: Installation | None = None,
    *,
    accepts_lines: bool = False,
    reach: Reach | None = None,
) -> LaunchPlan:
    """Check the plan's recipe against the rules and seal the plan: only a sealed plan can be launched.

    The layers that take noise are added to the plan's expectations, since the model's architecture determines them.

    `resolved` is the recipe. It is None for a plan without a recipe, whose script is searched instead; `accepts_lines`:
    the user accepted the lines that affect other processes; `reach` is what the shell of its place finds of what keeps
    them within the run. `found` is the back-end that a query found on the host.
    """
    if resolved is None:
        found_lines = script_findings(plan, accepted=accepts_lines, reach=reach or Reach())
        return seal(replace(plan, findings=(*plan.findings, *found_lines)))
    from rlx.planning.noise_layers import with_expected_layers
    from rlx.planning.rules import check

    plan = with_expected_layers(plan, resolved, found)
    return seal(replace(plan, findings=(*plan.findings, *check(resolved, found), *_not_started(found))))


def _not_started(found: Installation | None) -> Iterator[Finding]:
    if found and found.unasked:
        message = (
            f"{found.where}: {found.unasked} was not started, because only the recipe names it: its packages were read "
            "from its folders, and whether it reaches the devices is not known"
        )
        fix = "--trust starts it, now and later, as a launch does; or set python: in the host's entry"
        yield Finding("RLX407", Severity.WARNING, message, fix, "backend.python")


def preflight(
    plans: Iterable[LaunchPlan], queried: Iterable[QueriedHost] = (), others: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """List the findings of these checked plans, of their hosts and `others`, each once, errors first."""
    of_plans = (finding for plan in plans for finding in plan.findings)
    of_hosts = (finding for host in queried for finding in host.findings)
    found = dict.fromkeys((*of_plans, *of_hosts, *others))
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))


def fatal(findings: Sequence[Finding], strict: bool = False) -> tuple[Finding, ...]:
    """Return the findings that prevent a launch: errors, and with `strict` warnings too."""
    severities = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return tuple(finding for finding in findings if finding.severity in severities)


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """Return 2 if one of these fatal findings is about the recipe itself, 5 if all are about what would fail."""
    return ExitCode.PREFLIGHT_FAILED if all(map(_is_foreseen, findings)) else ExitCode.USAGE


def is_of_host(finding: Finding) -> bool:
    """Return whether a query of the host found it."""
    return int(finding.id.removeprefix("RLX")) in _OF_THE_HOST


def _is_foreseen(finding: Finding) -> bool:
    from rlx.planning.rules import find_rule

    return is_of_host(finding) or find_rule(finding.id) is not None
