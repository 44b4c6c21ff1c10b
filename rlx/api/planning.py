"""Turn a recipe into launch plans, with all that speaks for and against them: rules, host and back-end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.api.plans import Draft, Plans
from rlx.errors import UsageError
from rlx.model import LaunchPlan

if TYPE_CHECKING:
    from rlx.api.host_check import HostLooks
    from rlx.api.target import Target
    from rlx.model import Installation
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
    from rlx.planning.host_requirements import requirements_of

    wanted = requirements_of(resolved)
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
    from rlx.planning.preflight import sealed_plan

    backend = load_backend(resolved.recipe.backend.kind)
    nodes = [node.placed(backend.plan(resolved, node.site, tree)) for node in target.nodes]
    return sealed_plan(as_nodes(nodes, resolved.recipe.layout.nodes), resolved, tree)
