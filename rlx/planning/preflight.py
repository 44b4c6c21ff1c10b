"""Judge a launch before it starts anything: the one preflight of `rlx plan`, `rlx launch` and `rlx doctor --recipe`.

A plan is judged by the rules when it is made (`checked`), its host by one look (host_look.py). `preflight` is both, in
the order in which every command shows them. An error that is the recipe's own, or that the recipe and the place that
was named do not fit, ends a command with exit code 2; with errors of the host, or of rules alone it is 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import ExitCode
from rlx.model import Finding, LaunchPlan, Severity
from rlx.model.launch_plan import seal
from rlx.planning.script_lines import script_findings

if TYPE_CHECKING:
    from rlx.model import Installation
    from rlx.planning.host_look import HostLook
    from rlx.recipe import ResolvedRecipe

_ORDER = tuple(Severity)
# What the probes of a host find; RLX500 to RLX505 hold the recipe against what its entry says.
_OF_THE_HOST = range(506, 560)


def checked(
    plan: LaunchPlan,
    resolved: ResolvedRecipe | None = None,
    found: Installation | None = None,
    *,
    accepts_lines: bool = False,
) -> LaunchPlan:
    """Hold the plan's recipe against the rules and seal it with what they found: only such a plan can be launched.

    What the model's architecture says of the noise is added to the plan's promises.

    `resolved` is the recipe; None for a plan without one, whose script is looked through: `accepts_lines` is what a
    person said to what such scripts may do to others. `found` is the back-end that a look at the host found.
    """
    if resolved is None:
        return seal(replace(plan, findings=(*plan.findings, *script_findings(plan, accepted=accepts_lines))))
    from rlx.planning.promised_layers import with_promised_layers
    from rlx.planning.rules import check

    plan = with_promised_layers(plan, resolved, found)
    return seal(replace(plan, findings=(*plan.findings, *check(resolved, found), *_unasked(found))))


def _unasked(found: Installation | None) -> Iterator[Finding]:
    if found and found.unasked:
        message = (
            f"{found.where}: {found.unasked} was not started, because only the recipe names it: its packages were read "
            "as far as folders tell, and whether it reaches the devices is not known"
        )
        fix = "--trust starts it, now and later, as a launch does; or write python: into the host's entry"
        yield Finding("RLX407", Severity.WARNING, message, fix, "backend.python")


def preflight(
    plans: Iterable[LaunchPlan], looks: Iterable[HostLook] = (), others: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """List all that is known of these checked plans, of their hosts and `others`, each once, errors first."""
    of_plans = (finding for plan in plans for finding in plan.findings)
    of_hosts = (finding for look in looks for finding in look.findings)
    found = dict.fromkeys((*of_plans, *of_hosts, *others))
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))


def fatal(findings: Sequence[Finding], strict: bool = False) -> tuple[Finding, ...]:
    """The findings that keep a plan from being launched: errors, and with `strict` warnings."""
    severities = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return tuple(finding for finding in findings if finding.severity in severities)


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """2 if one of these fatal findings is about the recipe itself, 5 if all are about what would fail."""
    return ExitCode.PREFLIGHT_FAILED if all(map(_is_foreseen, findings)) else ExitCode.USAGE


def is_of_host(finding: Finding) -> bool:
    """Tell whether a look at the host found it."""
    return int(finding.id.removeprefix("RLX")) in _OF_THE_HOST


def _is_foreseen(finding: Finding) -> bool:
    from rlx.planning.rules import find_rule

    return is_of_host(finding) or find_rule(finding.id) is not None
