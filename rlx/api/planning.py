"""Turn what a person types about a recipe into launch plans; shared by `rlx plan` and `rlx launch`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.cli.frame.output import narrate
from rlx.errors import ExitCode, RlxError, UsageError
from rlx.plan import Finding, LaunchPlan, Severity, from_jsonable

if TYPE_CHECKING:
    from rlx.api.host_check import HostChecks
    from rlx.api.installed_backend import BackendTrees
    from rlx.api.recipes import Recipe
    from rlx.cli.frame.site_options import Target
    from rlx.plan import FoundTree, Look
    from rlx.recipe import ResolvedRecipe

ALL_ARMS = "all"


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan, and what a look at its host told of the back-end and the model there; None: nobody looked."""

    plan: LaunchPlan
    found: FoundTree | None = None


@dataclass(frozen=True, slots=True)
class Plans:
    """The runs of a launch, one for each arm and seed."""

    drafts: tuple[Draft, ...]

    @property
    def plans(self) -> tuple[LaunchPlan, ...]:
        return tuple(draft.plan for draft in self.drafts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Collect what is to be said of all of them, each once."""
        return tuple(dict.fromkeys(finding for plan in self.plans for finding in plan.findings))


def plan(
    recipe: Recipe,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    host: str | None = None,
    container: str | None = None,
    sets: Sequence[str] = (),
) -> Plans:
    """Plan every arm of a recipe with every seed. Raises UsageError for what cannot be planned, HostError.

    No arm, or `all`, means every arm; no seed means the recipe's own.
    """
    from rlx.cli.frame.site_options import chosen_target

    return Plans(tuple(draft_plans(recipe, arms, seeds, sets, chosen_target(host, container))))


def draft_plans(
    recipe: Recipe,
    arms: Sequence[str],
    seeds: Sequence[int],
    sets: Sequence[str],
    target: Target,
    *,
    check: HostChecks | None = None,
) -> list[Draft]:
    """One draft for each arm and seed; `launchable` tells whether they can be launched.

    No arm, or `all`, means every arm; no seed means the recipe's own. Keys are checked against the back-end that the
    target has; this machine's counts before a launch only, since a plan may be read here that is meant for elsewhere.
    A launch has a `check` under way, and gets plans for the site that it finds. A host that is known to lack the
    devices is not waited for. Raises UsageError for what cannot be planned.
    """
    from rlx.api.background import Background
    from rlx.api.installed_backend import BackendTrees, latest_tree
    from rlx.api.recipes import recipe_file
    from rlx.hosts.inventory.host_devices import is_misplaced

    file = recipe_file(recipe, sets)
    wanted = file.arms if not arms or ALL_ARMS in arms else tuple(dict.fromkeys(arms))
    resolved = [file.resolve(arm, seed) for arm in wanted for seed in dict.fromkeys(seeds or (None,))]
    trees = BackendTrees(target.site, launch=check is not None)
    # Ready before anything else takes the processor: what is asked now is answered while that is done.
    looks = [trees.look(one) for one in resolved]
    found = Background(lambda: _found_trees(trees, looks, check))
    # As if nothing had changed since the last time: what that reads is at hand when the host has answered.
    guess = latest_tree() if check else None
    if any(is_misplaced(_plan(one, target, guess)) for one in resolved):
        return [Draft(_plan(one, target)) for one in resolved]
    place = check.found(target) if check else target
    return [Draft(_plan(one, place, tree), tree) for one, tree in zip(resolved, found.result(), strict=True)]


def _plan(resolved: ResolvedRecipe, target: Target, tree: FoundTree | None = None) -> LaunchPlan:
    """Plan all nodes, each as it is on its own host; the findings of all of them are the head's."""
    from rlx.hosts.node_plans import as_nodes
    from rlx.preflight.rules import check

    nodes = [_plan_node(resolved, node, tree) for node in target.nodes]
    plan = as_nodes(nodes, resolved.recipe.layout.nodes)
    return replace(plan, findings=(*plan.findings, *check(resolved, tree)))


def _plan_node(resolved: ResolvedRecipe, target: Target, tree: FoundTree | None) -> LaunchPlan:
    from rlx.backends.protocol import load_backend

    return target.placed(load_backend(resolved.recipe.backend.kind).plan(resolved, target.site, tree))


def _found_trees(trees: BackendTrees, looks: Sequence[Look | None], check: HostChecks | None) -> list[FoundTree | None]:
    """Raises HostError for a launch to a host that does not answer."""
    if check:
        check.connected()
    return [trees.find(look) for look in looks]


def read_plans(path: str, strict: bool = False) -> list[LaunchPlan]:
    """Plans that `rlx plan --json` wrote; `-` is standard input. Raises UsageError."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as problem:
        raise UsageError(f"{path}: no plan can be read ({problem})", "write one with rlx plan RECIPE --json") from None
    return launchable(
        [from_jsonable(LaunchPlan, plan, f"{path}: plans[{i}]") for i, plan in enumerate(_plans(document, path))],
        strict,
    )


def launchable(plans: list[LaunchPlan], strict: bool = False) -> list[LaunchPlan]:
    """The plans, if nothing speaks against them.

    Raises UsageError with all that does, or RlxError (exit 5) if the recipe is sound by itself and would only fail.
    """
    fatal = dict.fromkeys(finding for plan in plans for finding in fatal_of(plan, strict))
    if fatal:
        text, hint = "\n".join(finding_text(finding) for finding in fatal), "rlx plan RECIPE shows the whole plan"
        if refusal_code(tuple(fatal)) is ExitCode.USAGE:
            raise UsageError(text, hint)
        raise RlxError(text, hint, ExitCode.PREFLIGHT_FAILED)
    return plans


def refusal_code(findings: Sequence[Finding]) -> ExitCode:
    """5 if all of them are about what would fail, 2 if one is about the recipe itself."""
    from rlx.preflight.rules import find_rule

    only_rules = all(find_rule(finding.id) for finding in findings)
    return ExitCode.PREFLIGHT_FAILED if only_rules else ExitCode.USAGE


def narrate_warnings(plans: Sequence[LaunchPlan]) -> None:
    """Show what does not keep the plans from being launched, but deserves a look first."""
    for finding in dict.fromkeys(finding for plan in plans for finding in plan.findings):
        if finding.severity is Severity.WARNING:
            narrate(f"rlx: {finding_text(finding)}")


def fatal_of(plan: LaunchPlan, strict: bool = False) -> tuple[Finding, ...]:
    """The findings that keep a plan from being launched: errors, and with `strict` warnings."""
    fatal = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return tuple(finding for finding in plan.findings if finding.severity in fatal)


def finding_text(finding: Finding) -> str:
    """`error RLX010 recipe.yaml:12: … (fix)`."""
    where = f" {finding.where}:" if finding.where else ""
    fix = f"\n  fix: {finding.fix}" if finding.fix else ""
    return f"{finding.severity} {finding.id}{where} {finding.message}{fix}"


def _plans(document: Any, path: str) -> list[Any]:
    plans = document.get("plans") if isinstance(document, dict) else None
    if not isinstance(plans, list) or not plans:
        raise UsageError(f"{path}: holds no plans", "write them with rlx plan RECIPE --json")
    return plans
