"""Turn a recipe into launch plans, with all that speaks for and against them: rules, host and back-end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.plan import Finding, LaunchPlan, Severity

if TYPE_CHECKING:
    from rlx.api.dealing import Deal
    from rlx.api.earlier_memory import EarlierMemory
    from rlx.api.host_check import HostLooks
    from rlx.api.missing_runs import Missing
    from rlx.api.power import RecipePower
    from rlx.api.target import Target
    from rlx.plan import Installation, Registration
    from rlx.preflight.host_look import HostLook
    from rlx.recipe import RecipeFile, ResolvedRecipe

ALL_ARMS = "all"


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
    looks: tuple[HostLook, ...] = ()
    missing: Missing | None = None
    power: RecipePower | None = None
    deal: Deal | None = None

    @property
    def plans(self) -> tuple[LaunchPlan, ...]:
        return tuple(draft.plan for draft in self.drafts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is to be said of all of them and of their hosts, each once, errors first."""
        from rlx.api.planned_power import power_findings
        from rlx.preflight.preflight import preflight

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
        from rlx.preflight.preflight import fatal

        return fatal(self.findings, strict)

    def refuse(self, strict: bool = False) -> None:
        """Raise UsageError with all that is fatal, or RlxError (exit 5) if the recipe is sound and would only fail."""
        if fatal := self.fatal(strict):
            raise _refusal(fatal, is_script=not all(plan.has_recipe for plan in self.plans))


def plan(
    recipe: str | RecipeFile,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    host: str | None = None,
    container: str | None = None,
    sets: Sequence[str] = (),
    *,
    devices: str | None = None,
    must_answer: bool = False,
    trust: bool = False,
    send: Sequence[str] = (),
) -> Plans:
    """Plan every arm of a recipe with every seed, and look at the host where one is named or is not this machine.

    No arm, or `all`, means every arm; no seed means the recipe's own, or all those that its experiment registers. The
    plans go seed by seed, each with one run of every arm. With `must_answer` the host is always looked at,
    and one that cannot be reached is an error. `trust` starts an interpreter that only the recipe names in order to
    look, and remembers that; `send` names private files that may travel with the run. Raises UsageError for what cannot
    be planned, HostError.
    """
    from rlx.api.host_check import HostLooks
    from rlx.api.target import named_target

    target = named_target(host, container, devices, consents=trust)
    is_named = must_answer or not (host is None and container is None and target.is_here)
    looks = HostLooks(target, must_answer=must_answer) if is_named else None
    return plan_at(recipe, arms, seeds or None, sets, target, looks, send=send)


def plan_at(
    recipe: str | RecipeFile,
    arms: Sequence[str],
    seeds: Sequence[int] | None,
    sets: Sequence[str],
    target: Target,
    looks: HostLooks | None = None,
    *,
    send: Sequence[str] = (),
    slots: Sequence[tuple[int, str]] | None = None,
) -> Plans:
    """`plan` for a target whose hosts are being looked at, or nobody looks at.

    Empty `seeds` mean the recipe's own; with None it is the default of `plan`. `slots` name seed and arm of each run,
    in place of both. Without a look, keys are checked against
    rlx's own tables. A host that is known to lack the devices is not waited for. Raises UsageError, HostError.
    """
    from rlx.api.installed_backend import latest_tree
    from rlx.hosts.inventory.host_devices import is_misplaced

    file = _file(recipe, sets)
    own = [(arm, seed) for seed, arm in slots] if slots is not None else None
    pairs = own if own is not None else block_slots(file, named_arms(file, arms), seeds)
    chosen = [file.resolve(arm, seed) for arm, seed in pairs]
    resolved = [replace(one, sendable=tuple(send)) for one in chosen]
    if looks is None:
        return Plans(tuple(Draft(plan_on(one, target)) for one in resolved))
    found = find_backends(looks, resolved, target)
    # As if nothing had changed since the last time: what that reads is at hand when the host has answered.
    guess = latest_tree()
    if any(is_misplaced(plan_on(one, target, guess)) for one in resolved):
        return Plans(tuple(Draft(plan_on(one, target)) for one in resolved))
    place = looks.found()
    drafts = [Draft(plan_on(one, place, tree), tree) for one, tree in zip(resolved, found(), strict=True)]
    return Plans(tuple(drafts), looks.result())


def named_arms(file: RecipeFile, arms: Sequence[str]) -> tuple[str, ...]:
    """The arms that are meant: none, or `all`, means every arm."""
    return file.arms if not arms or ALL_ARMS in arms else tuple(dict.fromkeys(arms))


def block_slots(file: RecipeFile, arms: Sequence[str], seeds: Sequence[int] | None) -> Iterator[tuple[str, int | None]]:
    """Go through the seeds, each with every arm once, so that a drift of the machine falls on no arm in particular.

    Pairs are there early, too. Arms of an experiment go in an order that its digest fixes, others as they are declared.
    """
    from rlx.backends.shared.registering import registration_of

    asked = registration_of(file.name, file.control, file.experiment)
    if seeds is None:
        seeds = asked.seeds if asked else ()
    for seed in tuple(dict.fromkeys(seeds)) or (None,):
        ordered = asked.block(seed, arms) if asked and seed is not None else arms
        yield from ((arm, seed) for arm in ordered)


def finding_text(finding: Finding) -> str:
    """`error RLX010 recipe.yaml:12: … (fix)`."""
    where = f" {finding.where}:" if finding.where else ""
    fix = f"\n  fix: {finding.fix}" if finding.fix else ""
    return f"{finding.severity} {finding.id}{where} {finding.message}{fix}"


def refusal_code(findings: Sequence[Finding]) -> ExitCode:
    """2 if one of these fatal findings is about the recipe itself, 5 if all are about what would fail."""
    from rlx.preflight.preflight import exit_code

    return exit_code(findings)


def _file(recipe: str | RecipeFile, sets: Sequence[str]) -> RecipeFile:
    from rlx.recipe import RecipeFile, load_recipe

    if not isinstance(recipe, RecipeFile):
        return load_recipe(recipe, sets)
    if sets:
        raise UsageError("sets: the recipe has been loaded already", "give them to load_recipe(path, sets)")
    return recipe


def find_backends(
    looks: HostLooks, resolved: Sequence[ResolvedRecipe], target: Target
) -> Callable[[], list[Installation | None]]:
    """Ask the hosts for all that these recipes want; what comes back waits for the back-end that each would import."""
    from rlx.api.background import Background
    from rlx.api.installed_backend import BackendTrees
    from rlx.preflight.wanted import wanted_by

    wanted = wanted_by(resolved)
    looks.begin(replace(wanted, may_start=target.may_start(wanted.python)))
    trees = BackendTrees(target, looks.must_answer)
    # Ready before anything else takes the processor: what is asked now is answered while that is done.
    questions = [trees.look(one) for one in resolved]

    def find() -> list[Installation | None]:
        looks.connected()
        return [trees.find(question) for question in questions]

    return Background(find).result


def plan_on(resolved: ResolvedRecipe, target: Target, tree: Installation | None = None) -> LaunchPlan:
    """Plan all nodes, each as it is on its own host; the findings of all of them are the head's."""
    from rlx.backends.protocol import load_backend
    from rlx.hosts.node_plans import as_nodes
    from rlx.preflight.preflight import checked

    backend = load_backend(resolved.recipe.backend.kind)
    nodes = [node.placed(backend.plan(resolved, node.site, tree)) for node in target.nodes]
    return checked(as_nodes(nodes, resolved.recipe.layout.nodes), resolved, tree)


def _refusal(fatal: Sequence[Finding], *, is_script: bool) -> RlxError:
    from rlx.preflight.preflight import is_of_host

    text, code = "\n".join(finding_text(finding) for finding in fatal), refusal_code(fatal)
    whole = f"{'rlx launch --dry-run' if is_script else 'rlx plan RECIPE'} shows the whole plan"
    if code is ExitCode.USAGE:
        return UsageError(text, whole)
    of_host = all(map(is_of_host, fatal))
    hint = "rlx doctor HOST shows all that is known of the host" if of_host else whole
    return RlxError(text, hint, code)
