"""Launch plans that passed the preflight; read plans that `rlx plan --json` wrote, and check them again."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.api.planning import PlannedRun, Plans, find_backends
from rlx.errors import ExitCode, RlxError, UsageError
from rlx.local_files import parse_json, read_bytes, read_stdin
from rlx.model import LaunchPlan, Registration, from_jsonable
from rlx.model.launch_plan import with_current_names
from rlx.model.run_dir import PAYLOAD_DIR

if TYPE_CHECKING:
    from rlx.api.hosts import HostQueries, Target
    from rlx.model import Installation, Place
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.first_form import DeclaredArm
    from rlx.runs import Launched, RunRef
    from rlx.shell_reader.contained_commands import Reach

MANY_RUNS = 8
# A plan is about 200 kB, most of it the payload.
_MOST_BYTES = 64 << 20
_PLAN_AGAIN = "make the plan again: rlx plan RECIPE --json"


def launch(plans: Plans, *, secrets: Mapping[str, str] | None = None, strict: bool = False) -> Launched:
    """Start every run of the plans and return while they run. `secrets` default to the environment's.

    Raises UsageError or RlxError (exit 5) for plans against which something speaks, and if a secret is missing or the
    host refuses. Of a sweep, the hosts that do not refuse start their share all the same.
    """
    from rlx.api.runs import rlx_home
    from rlx.runs import launch as launch_plans

    plans.refuse(strict)
    values = os.environ if secrets is None else secrets
    if plans.distribution is None:
        return launch_plans(plans.plans, values, rlx_home())
    from rlx.api.sweeping import keep_sweep, only_one

    with only_one(rlx_home(), wait=True):
        keep_sweep(rlx_home(), plans)
        return launch_plans(plans.plans, values, rlx_home(), plans.distribution.asked)


def earlier_attempts(plans: Plans, launched: Launched) -> tuple[RunRef, ...]:
    """Find the runs that these arms had with these seeds since their experiment was registered, before this launch."""
    from rlx.api.runs import open_index
    from rlx.runs.index.registrations import known_here
    from rlx.runs.run import utc_text

    asked = plans.registration
    if asked is None:
        return ()
    index = open_index()
    known = known_here(index.home, asked)
    since = known.registered if known else ""
    ids = {ref.run_id for ref in launched}
    slots = {(plan.name, plan.arm, plan.seed) for plan in plans.plans}
    return tuple(
        ref
        for ref in index.runs()
        if (ref.name, ref.arm, ref.seed) in slots and ref.run_id not in ids and utc_text(ref.created) >= since
    )


def note_agreed(sent: Iterable[tuple[str, str]], plan: str) -> None:
    """Write down which secrets of a written plan go where without a prompt; names, never values.

    `sent`: names and destinations. The journal is `agreed.jsonl` in rlx's home. Raises RlxError where it cannot be
    written, because then nothing would tell of it.
    """
    from rlx.api.runs import rlx_home

    path = rlx_home() / "agreed.jsonl"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [json.dumps({"time": now, "secret": name, "to": place, "plan": plan}) for name, place in sent]
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise RlxError(f"{path}: {error.strerror}", "rlx notes there which secrets -y agreed to send") from None


def size_of(plans: Plans) -> str:
    """Return how much a launch starts, for the prompt: `10 runs of 8 × npu each`."""
    kinds = dict.fromkeys(f"{plan.devices * len(plan.nodes)} × {plan.device_kind}" for plan in plans.plans)
    return f"{len(plans.plans)} runs of {' or '.join(kinds)} each"


def read_plans(path: str) -> list[LaunchPlan]:
    """Read what `rlx plan --json` wrote; `-` is standard input. Raises UsageError."""
    try:
        document = parse_json(read_stdin(_MOST_BYTES) if path == "-" else read_bytes(Path(path), _MOST_BYTES))
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise UsageError(f"{path}: no plan can be read ({reason})", "write one with rlx plan RECIPE --json") from None
    return [_read(plan, f"{path}: plans[{i}]") for i, plan in enumerate(_plans(document, path))]


def plan_again(plans: Sequence[LaunchPlan], *, trust: bool = False) -> Plans:
    """Check the plans against the rules and their hosts as they are now. `trust` as for `plan`.

    Raises UsageError for a plan that cannot become a run or goes elsewhere than its host's name says, HostError, and
    RlxError (exit 5) if another container has the name now.
    """
    from rlx.api.hosts import HostQueries, target_of
    from rlx.runs import check_plan

    for node in (node for plan in plans for node in plan.nodes):
        _check_plain(node)
        check_plan(node)
        _check_place(node)
    asked = [HostQueries(target_of(share[0], consents=trust)) for share in _shares(plans)]
    with tempfile.TemporaryDirectory(prefix="rlx-plan-") as folder:
        judged = [
            _judged(share, looks, Path(folder, str(number)))
            for number, (share, looks) in enumerate(zip(_shares(plans), asked, strict=True))
        ]
    planned_runs = {id(plan): planned for each in judged for plan, planned in each}
    of_hosts = (look for looks in asked for look in looks.result())
    return Plans(tuple(planned_runs[id(plan)] for plan in plans), tuple(of_hosts))


def _shares(plans: Sequence[LaunchPlan]) -> list[list[LaunchPlan]]:
    """Return the plans by where they go: those of a sweep name several hosts."""
    shares: list[list[LaunchPlan]] = []
    for plan in plans:
        places = [node.site for node in plan.nodes]
        mine = next((share for share in shares if [node.site for node in share[0].nodes] == places), None)
        if mine is None:
            shares.append(mine := [])
        mine.append(plan)
    return shares


def _judged(plans: Sequence[LaunchPlan], looks: HostQueries, folder: Path) -> list[tuple[LaunchPlan, PlannedRun]]:
    """Each plan of one place with what it is now. Raises what `plan_again` raises."""
    from rlx.planning.probing.machine import reach_of

    folder.mkdir()
    recipes = [recipe_of(plan, folder / str(i)) for i, plan in enumerate(plans)]
    found = find_backends(looks, [recipe for recipe in recipes if recipe], looks.target)
    _check_containers(looks.target, looks.found())
    trees = iter(found())
    pairs = zip(plans, recipes, strict=True)
    queried = looks.result()
    reach = reach_of(queried[0].results) if queried else None
    return [(plan, _again(plan, recipe, next(trees) if recipe else None, reach)) for plan, recipe in pairs]


def recipe_of(plan: LaunchPlan, folder: Path | None = None) -> ResolvedRecipe | None:
    """Return the recipe that a plan holds; None for a run without one. Raises UsageError.

    With a `folder`, the files of reward functions that travel with the plan are written there, and are the recipe's.
    """
    from pydantic import ValidationError

    from rlx.backends.shared.registering import declared_by
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

    if not plan.has_recipe:
        return None
    document = _with_own_files(plan, folder) if folder else plan.recipe
    try:
        recipe = Recipe.model_validate(document)
        experiment = declared_by(plan.registration) if plan.registration else None
    except ValidationError as problem:
        raise UsageError(f"{plan.run_name}: the recipe in the plan is none: {problem}", _PLAN_AGAIN) from None
    at, arm = folder or Path(), plan.arm
    return ResolvedRecipe(recipe, arm, plan.control, plan.treatment, {}, at, document, experiment=experiment)


def _read(document: Any, where: str) -> LaunchPlan:
    """Read one plan. The seal in a file is not trusted."""
    return with_current_names(from_jsonable(LaunchPlan, document, where))


def _plans(document: Any, path: str) -> list[Any]:
    plans = document.get("plans") if isinstance(document, dict) else None
    if not isinstance(plans, list) or not plans:
        raise UsageError(f"{path}: holds no plans", "write them with rlx plan RECIPE --json")
    return plans


def _again(
    plan: LaunchPlan, recipe: ResolvedRecipe | None, tree: Installation | None, reach: Reach | None
) -> PlannedRun:
    from rlx.api.hosts import target_of
    from rlx.hosts.node_plans import as_nodes
    from rlx.planning.preflight import sealed_plan

    registered = _registered(plan, recipe)
    bare = [replace(node, findings=(), workers=(), cluster=None, registration=registered) for node in plan.parts]
    nodes = [place.placed(node) for place, node in zip(target_of(plan).nodes, bare, strict=True)]
    wanted = recipe.recipe.layout.nodes if recipe else len(plan.nodes)
    return PlannedRun(sealed_plan(as_nodes(nodes, wanted), recipe, tree, reach=reach), tree)


def _registered(plan: LaunchPlan, recipe: ResolvedRecipe | None) -> Registration | None:
    """Return the experiment that the plan names; when and by whom it is registered is for the launch to say.

    Raises UsageError where it is not the one of the recipe in the plan.
    """
    if plan.registration is None or recipe is None or recipe.experiment is None:
        return None
    from rlx.backends.shared.registering import registration_of

    again = registration_of(plan.name, plan.control, recipe.experiment)
    is_own = again == replace(plan.registration, registered="", by="")
    is_system = again is not None and again.is_of_systems
    if not is_own or not any(_is_arm(plan, recipe, arm, is_system) for arm in recipe.experiment.arms):
        raise UsageError(f"{plan.run_name}: its experiment is not that of the recipe in the plan", _PLAN_AGAIN)
    return again


def _is_arm(plan: LaunchPlan, recipe: ResolvedRecipe, arm: DeclaredArm, is_system: bool) -> bool:
    """Tell whether the plan runs what the experiment has under the name of its arm."""
    from rlx.recipe.first_form import arm_digests, is_known
    from rlx.renamed_keys import first_key, first_names

    own = [first_key(key) for key in plan.treatment if key != "seed"]
    document = first_names(recipe.recipe.model_dump(mode="json", exclude_defaults=True))
    # Of keys that are younger than the form, a plan does not tell defaults from what was written.
    is_treated = {*filter(is_known, own)} == {*filter(is_known, arm.treatment)}
    digests = arm_digests(document, own, is_system=is_system)
    return plan.arm == arm.name and is_treated and digests == (arm.recipe, arm.evaluation)


def _check_plain(plan: LaunchPlan) -> None:
    """Raise UsageError for a secret in a plan file: rlx writes none, so the file was edited."""
    from rlx.recipe.plain_secrets import plain_secrets

    for path, problem in plain_secrets({**plan.recipe, "env": plan.env}):
        raise UsageError(f"{plan.run_name}: {'.'.join(map(str, path))}: {problem}", _PLAN_AGAIN)


def _check_place(plan: LaunchPlan) -> None:
    """Raise UsageError where the name that a file shows means another machine here than the one that it goes to."""
    from rlx.hosts import site_of

    planned, here = plan.site.place, site_of(plan.site.host, "").place
    if (planned.destination, planned.via) != (here.destination, here.via):
        raise UsageError(
            f"{plan.run_name}: the plan goes to {_machine(planned)}, and {plan.site.host} is {_machine(here)} here",
            f"rlx hosts show {plan.site.host}; {_PLAN_AGAIN}",
        )


def _machine(place: Place) -> str:
    return f"{place.destination} (by {place.via})" if place.destination else "this machine"


def _check_containers(planned: Target, found: Target) -> None:
    """Refuse a container that is not the one that the plan was made for. Raises RlxError (exit 5)."""
    for before, now in zip(planned.nodes, found.nodes, strict=True):
        if before.site.container_id != now.site.container_id:
            raise RlxError(
                f"{now.site.host}: the container {now.site.container} is another one than when the plan was made",
                _PLAN_AGAIN,
                ExitCode.PREFLIGHT_FAILED,
            )


def _with_own_files(plan: LaunchPlan, folder: Path) -> Mapping[str, Any]:
    """Return the recipe's document with the reward files of the plan in place of those on the machine that planned
    it.
    """
    document = copy.deepcopy(dict(plan.recipe))
    contents = {Path(file.path).name: file.content for file in plan.files if file.path.startswith(f"{PAYLOAD_DIR}/")}
    post = (document.get("eval") or {}).get("post") or {}
    for reward in (document.get("reward"), post.get("reward")):
        if isinstance(reward, dict) and (name := Path(str(reward.get("path"))).name) in contents:
            folder.mkdir(exist_ok=True)
            Path(folder, name).write_text(contents[name], encoding="utf-8")
            reward["path"] = str(folder / name)
    return document
