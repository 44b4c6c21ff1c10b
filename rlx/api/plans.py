"""Hold the plans of a launch with all that was found for and against them: the values that planning returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.model import Finding, LaunchPlan, Severity, finding_text

if TYPE_CHECKING:
    from rlx.api.dealing import Deal
    from rlx.api.power import RecipePower
    from rlx.compare.run_slots import RunSlot
    from rlx.model import Installation, Registration
    from rlx.planning.host_query import QueriedHost


@dataclass(frozen=True, slots=True)
class EarlierMemory:
    """`allocated_gib`: the most that a device held in the processes that train, at any step that was logged; None where
    nothing was. `sampled_gib`: the most that one of its devices showed to be in use, by anybody; None where none was
    sampled."""

    run_id: str
    name: str
    arm: str
    allocated_gib: float | None
    sampled_gib: float | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """What is to be launched of an experiment of which runs are there.

    `launches`: seed and arm of each run to be launched. `slots`: every registered run of the chosen arms, with what
    stands for it. `completes`: these are the runs of a launch that was interrupted, all of them.
    """

    registration: Registration
    launches: tuple[tuple[int, str], ...]
    slots: tuple[RunSlot, ...] = ()
    completes: bool = False

    @property
    def there(self) -> tuple[RunSlot, ...]:
        """The registered runs for which none is to be launched."""
        return tuple(slot for slot in self.slots if slot.next_seed is None)


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan, and what a look at its host told of the back-end and the model there; None: nobody looked.

    `earlier_memory`: what earlier runs of its kind took, as far as somebody asked.
    """

    plan: LaunchPlan
    found: Installation | None = None
    earlier_memory: tuple[EarlierMemory, ...] = ()


@dataclass(frozen=True, slots=True)
class Plans:
    """The runs of a launch, each judged by the rules, and what looks at their hosts found; no look, nothing found.

    `missing`: what was found of an experiment of which runs are there, where that chose these; else None. `power`: what
    the experiment can see, None where there is none or nobody computed it. `deal`: which host of a sweep takes what,
    None for a launch to one place.
    """

    drafts: tuple[Draft, ...]
    looks: tuple[QueriedHost, ...] = ()
    missing: Missing | None = None
    power: RecipePower | None = None
    deal: Deal | None = None

    @property
    def plans(self) -> tuple[LaunchPlan, ...]:
        return tuple(draft.plan for draft in self.drafts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is to be said of all of them and of their hosts, each once, errors first."""
        from rlx.api.power import power_findings
        from rlx.planning.preflight import preflight

        of_deal = self.deal.findings if self.deal else ()
        return preflight(self.plans, self.looks, (*power_findings(self.power), *of_deal))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the folders on the hosts."""
        return tuple(dict.fromkeys(warning for look in self.looks for warning in look.warnings))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that keep nothing from being launched, but deserve a look first."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def registration(self) -> Registration | None:
        """The experiment that these runs belong to; None: they answer no registered question."""
        if self.missing is not None:
            return self.missing.registration
        return next((plan.registration for plan in self.plans if plan.registration), None)

    @property
    def left_for_later(self) -> tuple[tuple[int, str], ...]:
        """The registered runs, by seed and arm, that are not among these plans."""
        here = {(plan.seed, plan.arm) for plan in self.plans}
        return tuple(slot for slot in self.registration.slots if slot not in here) if self.registration else ()

    def fatal(self, strict: bool = False) -> tuple[Finding, ...]:
        """The findings for which a launch is refused: errors, and with `strict` warnings."""
        from rlx.planning.preflight import fatal

        return fatal(self.findings, strict)

    def refuse(self, strict: bool = False) -> None:
        """Raise UsageError with all that is fatal, or RlxError (exit 5) if the recipe is sound and would only fail."""
        if fatal := self.fatal(strict):
            raise _refusal(fatal, is_script=not all(plan.has_recipe for plan in self.plans))


def refusal_code(findings: Sequence[Finding]) -> ExitCode:
    """2 if one of these fatal findings is about the recipe itself, 5 if all are about what would fail."""
    from rlx.planning.preflight import exit_code

    return exit_code(findings)


def _refusal(fatal: Sequence[Finding], *, is_script: bool) -> RlxError:
    from rlx.planning.preflight import is_of_host

    text, code = "\n".join(finding_text(finding) for finding in fatal), refusal_code(fatal)
    whole = f"{'rlx launch --dry-run' if is_script else 'rlx plan RECIPE'} shows the whole plan"
    if code is ExitCode.USAGE:
        return UsageError(text, whole)
    of_host = all(map(is_of_host, fatal))
    hint = "rlx doctor HOST shows all that is known of the host" if of_host else whole
    return RlxError(text, hint, code)
