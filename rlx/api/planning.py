"""Turn a recipe into launch plans, with the findings of rules, hosts and back-end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.model import Finding, LaunchPlan, Severity, finding_text

if TYPE_CHECKING:
    from rlx.api.hosts import HostQueries, Target
    from rlx.api.power import RecipePower
    from rlx.compare.slot_assignment import EndedRun, RunSlot
    from rlx.model import Installation, Registration
    from rlx.planning.host_query import QueriedHost
    from rlx.recipe import RecipeFile, ResolvedRecipe

ALL_ARMS = "all"


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
    """Plan every arm of a recipe with every seed, and query the host where one is named or is not this machine.

    No arm, or `all`, means every arm; no seed means the recipe's own, or all those that its experiment registers. The
    plans go seed by seed, each with one run of every arm. With `must_answer` the host is always queried, and one that
    cannot be reached is an error. `trust` allows the preflight to start an interpreter that only the recipe names, and
    is remembered; `send` names private files that may be uploaded with the run. Raises UsageError for what cannot
    be planned, HostError.
    """
    from rlx.api.hosts import HostQueries, named_target

    target = named_target(host, container, devices, consents=trust)
    is_named = must_answer or not (host is None and container is None and target.is_here)
    looks = HostQueries(target, must_answer=must_answer) if is_named else None
    return plan_at(recipe, arms, seeds or None, sets, target, looks, send=send)


def plan_at(
    recipe: str | RecipeFile,
    arms: Sequence[str],
    seeds: Sequence[int] | None,
    sets: Sequence[str],
    target: Target,
    looks: HostQueries | None = None,
    *,
    send: Sequence[str] = (),
    slots: Sequence[tuple[int, str]] | None = None,
) -> Plans:
    """Read the recipe, locate its hosts, plan each run there and check it; the hosts are being queried, or not at all.

    Empty `seeds` mean the recipe's own; with None it is the default of `plan`. `slots` name seed and arm of each run,
    in place of both. Without a query, keys are checked against rlx's own tables. A host that is known to lack the
    devices is not waited for. Raises UsageError, HostError.
    """
    resolved = read_runs(recipe, arms, seeds, sets, send, slots)
    located = locate(looks, resolved, target) if looks is not None else None
    if looks is None or located is None:
        return Plans(tuple(PlannedRun(plan_on(one, target)) for one in resolved))
    place, trees = located
    planned_runs = [PlannedRun(plan_on(one, place, tree), tree) for one, tree in zip(resolved, trees, strict=True)]
    return Plans(tuple(planned_runs), looks.result())


def read_runs(
    recipe: str | RecipeFile,
    arms: Sequence[str],
    seeds: Sequence[int] | None,
    sets: Sequence[str],
    send: Sequence[str],
    slots: Sequence[tuple[int, str]] | None = None,
) -> list[ResolvedRecipe]:
    """Read the recipe, and resolve it for each run that is to be planned."""
    file = _file(recipe, sets)
    pairs = block_slots(file, named_arms(file, arms), seeds) if slots is None else ((arm, seed) for seed, arm in slots)
    return [replace(file.resolve(arm, seed), sendable=tuple(send)) for arm, seed in pairs]


def locate(
    looks: HostQueries, resolved: Sequence[ResolvedRecipe], target: Target
) -> tuple[Target, list[Installation | None]] | None:
    """Find the containers of the hosts, and the back-end that each recipe would import there.

    None where a host lacks the devices: it is not waited for.
    """
    from rlx.api.hosts import latest_tree
    from rlx.hosts.inventory.host_devices import is_misplaced

    found = find_backends(looks, resolved, target)
    # As if nothing had changed since the last time, so that what it reads is cached when the host has answered.
    guess = latest_tree()
    if any(is_misplaced(plan_on(one, target, guess)) for one in resolved):
        return None
    place = looks.found()
    return place, found()


def named_arms(file: RecipeFile, arms: Sequence[str]) -> tuple[str, ...]:
    """Return the arms that are meant: none, or `all`, means every arm."""
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


def _file(recipe: str | RecipeFile, sets: Sequence[str]) -> RecipeFile:
    from rlx.recipe import RecipeFile, load_recipe

    if not isinstance(recipe, RecipeFile):
        return load_recipe(recipe, sets)
    if sets:
        raise UsageError("sets: the recipe has been loaded already", "give them to load_recipe(path, sets)")
    return recipe


def find_backends(
    looks: HostQueries, resolved: Sequence[ResolvedRecipe], target: Target
) -> Callable[[], list[Installation | None]]:
    """Ask the hosts for all that these recipes want; what comes back waits for the back-end that each would import."""
    from rlx.api.hosts import BackendTrees, Background
    from rlx.planning.host_requirements import requirements_of

    wanted = requirements_of(resolved)
    looks.begin(replace(wanted, may_start=target.may_start(wanted.python)))
    trees = BackendTrees(target, looks.must_answer)
    # Written before anything else uses the processor, so that the answers arrive meanwhile.
    questions = [trees.look(one) for one in resolved]

    def find() -> list[Installation | None]:
        looks.connected()
        return [trees.find(question) for question in questions]

    return Background(find).result


def plan_on(resolved: ResolvedRecipe, target: Target, tree: Installation | None = None) -> LaunchPlan:
    """Plan all nodes, each as it is on its own host, and check them; the head has the findings of all."""
    from rlx.backends.protocol import load_backend
    from rlx.hosts.node_plans import as_nodes
    from rlx.planning.preflight import sealed_plan

    backend = load_backend(resolved.recipe.backend.kind)
    nodes = [node.placed(backend.plan(resolved, node.site, tree)) for node in target.nodes]
    return sealed_plan(as_nodes(nodes, resolved.recipe.layout.nodes), resolved, tree)


@dataclass(frozen=True, slots=True)
class EarlierMemory:
    """The device memory of an earlier run. `allocated_gib`: the maximum of the training processes over all logged
    steps; `sampled_gib`: the maximum in use on one of its devices, by all processes. None where it was not recorded.
    """

    run_id: str
    name: str
    arm: str
    allocated_gib: float | None
    sampled_gib: float | None = None


@dataclass(frozen=True, slots=True)
class MissingRuns:
    """The runs to be launched of an experiment that has runs already.

    `launches`: seed and arm of each run to be launched. `slots`: every registered run of the chosen arms, with the
    run that holds it. `completes`: these are the runs of a launch that was interrupted, all of them.
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
class PlannedRun:
    """A plan, and the back-end and model that its host reported; None: the host was not queried.

    `earlier_memory`: the device memory of earlier runs of its kind, if requested.
    """

    plan: LaunchPlan
    found: Installation | None = None
    earlier_memory: tuple[EarlierMemory, ...] = ()


@dataclass(frozen=True, slots=True)
class Plans:
    """The runs of a launch, each checked by the rules, and what the queries of their hosts found.

    `missing`: what was found of an experiment of which runs are there, where that chose these; else None. `power`: what
    the experiment can see, None where there is none or it was not computed. `distribution`: which host of a sweep gets
    which blocks, None for a launch to one place.
    """

    planned_runs: tuple[PlannedRun, ...]
    looks: tuple[QueriedHost, ...] = ()
    missing: MissingRuns | None = None
    power: RecipePower | None = None
    distribution: Distribution | None = None

    @property
    def plans(self) -> tuple[LaunchPlan, ...]:
        """Return the plan of each run."""
        return tuple(planned.plan for planned in self.planned_runs)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is to be said of all of them and of their hosts, each once, errors first."""
        from rlx.api.power import power_findings
        from rlx.planning.preflight import preflight

        of_distribution = self.distribution.findings if self.distribution else ()
        return preflight(self.plans, self.looks, (*power_findings(self.power), *of_distribution))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the warnings about the folders on the hosts."""
        return tuple(dict.fromkeys(warning for look in self.looks for warning in look.warnings))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Return the findings that do not prevent a launch, but should be read first."""
        return self.of(Severity.WARNING)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of this severity."""
        return tuple(finding for finding in self.findings if finding.severity is severity)

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
        """Return the findings for which a launch is refused: errors, and with `strict` warnings."""
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


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """The capacity of one host. `width`: how many runs of the sweep it has devices for at a time; `ahead`: runs that
    have or await its devices already, of all users.
    """

    host: str
    width: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """The blocks of a sweep by host. `asked`: digest of what was typed, the same whatever was free; `hosts` as typed.

    `capacities`: what was free on those that take part; `findings`: what is to be said of those that do not, and of
    blocks. `container` and `devices` as typed; `watched`: by arm, the noise of another arm that is watched for in it.
    Not `is_new`: this brings a launch to its end that was interrupted.
    """

    asked: str
    hosts: tuple[str, ...]
    capacities: tuple[HostCapacity, ...]
    findings: tuple[Finding, ...] = ()
    container: str | None = None
    devices: str | None = None
    watched: Mapping[str, Any] = field(default_factory=dict)
    is_new: bool = True


def distribute(
    blocks: Mapping[int, int], capacities: Sequence[HostCapacity], settled: Mapping[int, str]
) -> dict[int, str]:
    """Say for each block, by its seed, which host takes it. `blocks`: how many runs each has, in the order of launch.

    A block goes where its last run would begin first, by the runs that are before it and by how many fit side by side;
    among equals to the host that was named first. `settled` are those of which that is known already.
    """
    found: dict[int, str] = {}
    load = {capacity.host: capacity.ahead for capacity in capacities}
    for seed, host in settled.items():
        if seed in blocks and host in load:
            found[seed] = host
            load[host] += blocks[seed]
    for seed, size in blocks.items():
        if seed not in settled:
            best = min(capacities, key=lambda capacity: (load[capacity.host] + size) / capacity.width)
            found[seed] = best.host
            load[best.host] += size
    return {seed: found[seed] for seed in blocks if seed in found}


def plan_missing(
    file: RecipeFile, arms: Sequence[str], target: Target, looks: HostQueries, *, send: Sequence[str] = ()
) -> Plans:
    """Plan what is to be launched of these arms: of an experiment of which runs are there, what is missing.

    No plan where nothing is. Raises what `rlx.plan` raises.
    """

    missing = missing_runs(file, named_arms(file, arms))
    if missing is None:
        return plan_at(file, arms, None, (), target, looks, send=send)
    if not missing.launches:
        return Plans((), missing=missing)
    plans = plan_at(file, (), None, (), target, looks, send=send, slots=missing.launches)
    return replace(plans, missing=missing)


def missing_runs(file: RecipeFile, arms: Sequence[str]) -> MissingRuns | None:
    """Find what is to be launched of these arms of the recipe's experiment; None where nothing of it is known yet.

    The hosts of its runs are asked. Raises RlxError.
    """
    from rlx.backends.shared.registering import registration_of

    asked = registration_of(file.name, file.control, file.experiment)
    if asked is None:
        return None
    from rlx.api.experiments import ended_runs, known_runs
    from rlx.api.runs import open_index
    from rlx.runs.index.registrations import known_here

    index = open_index()
    asked = known_here(index.home, asked) or asked
    runs = ended_runs(known_runs(index, asked))
    interrupted = index.interrupted(asked.name)
    cut_off = tuple((ref.seed, ref.arm) for ref in interrupted)
    if cut_off and {ref.arm for ref in interrupted} <= set(arms):
        return MissingRuns(asked, cut_off, completes=True)
    return _missing(asked, runs, arms) if runs else None


def _missing(asked: Registration, runs: Sequence[EndedRun], arms: Sequence[str]) -> MissingRuns:
    """Return what is to be launched, in blocks: each seed with its arms in the order that the experiment fixes."""
    from rlx.compare.slot_assignment import assign_slots

    slots = tuple(slot for slot in assign_slots(asked, runs).slots if slot.arm in arms)
    wanted = [(slot.next_seed, slot.arm) for slot in slots if slot.next_seed is not None]
    seeds = dict.fromkeys(seed for seed, _ in wanted)
    blocks = ((seed, asked.block(seed, [arm for other, arm in wanted if other == seed])) for seed in seeds)
    return MissingRuns(asked, tuple((seed, arm) for seed, block in blocks for arm in block), slots)
