"""rlx launch: launch a recipe, or your own script, as detached runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.api.launching import MANY_RUNS
from rlx.api.planned_power import with_power
from rlx.cli.frame.completion import ARMS, RECIPES
from rlx.cli.frame.list_options import ARM_LIST, NUMBER_LIST
from rlx.cli.frame.script_options import (
    AcceptOption,
    AqnOption,
    Asked,
    NameOption,
    ScriptOption,
    SecretOption,
    WorkdirOption,
)
from rlx.cli.frame.site_options import (
    ContainerOption,
    DevicesOption,
    HostOption,
    ImageOption,
    NodesOption,
    SendOption,
    SpreadOption,
    TrustOption,
    Where,
    chosen_where,
    container_name,
)
from rlx.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rlx.api.plans import Plans
    from rlx.model import LaunchPlan, Site
    from rlx.runs import Launched


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What of a recipe is to be launched, and where. `again`: of an experiment also what is there already."""

    recipe: str | None
    arms: Sequence[str]
    seeds: Sequence[int]
    sets: Sequence[str]
    where: Where
    consents: bool
    send: Sequence[str]
    again: bool
    strict: bool
    spread: bool


_RecipeArgument = Annotated[
    str | None,
    typer.Argument(help="Recipe file, name of a recipe that comes with rlx, or - for stdin.", autocompletion=RECIPES),
]
_ArmOption = Annotated[
    list[str] | None, typer.Option(metavar=ARM_LIST, help="Arms. Default: all.", autocompletion=ARMS)
]

_YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help=f"Do not ask before starting over {MANY_RUNS}; implies --trust.")
]


def launch(
    recipe: _RecipeArgument = None,
    host: HostOption = None,
    spread: SpreadOption = False,
    nodes: NodesOption = False,
    container: ContainerOption = None,
    image: ImageOption = None,
    devices: DevicesOption = None,
    arm: _ArmOption = None,
    seed: Annotated[list[int] | None, typer.Option(metavar=NUMBER_LIST, help="Seeds. Default: the recipe's.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key.")] = None,
    secret_file: Annotated[str | None, typer.Option(help="NAME=VALUE lines, used before the environment.")] = None,
    send: SendOption = None,
    plan: Annotated[str | None, typer.Option(help="Launch what rlx plan --json wrote; - is stdin.")] = None,
    script: ScriptOption = None,
    name: NameOption = None,
    aqn: AqnOption = None,
    workdir: WorkdirOption = None,
    secret: SecretOption = None,
    accept_lines: AcceptOption = False,
    again: Annotated[bool, typer.Option("--again", help="Also relaunch registered runs that exist.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    trust: TrustOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plans, as rlx plan does.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With --dry-run: all of each run.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow progress until all runs finish.")] = False,
    yes: _YesOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of run ids.")] = False,
) -> None:
    """Launch a recipe, or your own script, as detached runs.

    One run per arm, seed by seed; they wait for devices in that order. A recipe with an `experiment` is registered, and
    only its missing runs are launched unless --seed names some. Prints the run ids. The same launch typed again after
    an interruption completes it. --script FILE --name N runs your own bash script, judged by the configuration that its
    log prints.
    """
    asked = Asked(script, name, aqn, workdir, secret or (), accept_lines)
    trust = trust or yes or not dry_run
    asked.check(arm or (), seed or (), recipe or set_ or send or plan or again or spread)
    before = None if dry_run or plan is not None else partial(_check_recipe, recipe, set_ or ())
    where = chosen_where(host, container, image, devices, spread=spread, nodes=nodes, before=before)
    if asked.is_script:
        plans = asked.plan(arm or (), seed or (), where)
    elif plan is not None:
        plans = _read(plan, trust, recipe, arm, seed, set_, *where, send, again or None)
    else:
        plans = _of(_Wanted(recipe, arm or (), seed or (), set_ or (), where, trust, send or (), again, strict, spread))
    plans = with_power(plans)
    if dry_run:
        _print_plans(plans, as_json, plan, verbose)
    _refuse_or_warn(plans, strict)
    if not dry_run:
        _tell(_launched(plans, plan, secret_file, strict, yes), plans, as_json, follow)


def _print_plans(plans: Plans, as_json: bool, written: str | None, verbose: bool) -> None:
    from rlx.api.earlier_memory import with_earlier_memory
    from rlx.cli.plan import print_plans

    print_plans(with_earlier_memory(plans), as_json, verbose=verbose, written=written is not None)


def _tell(launched: Launched | None, plans: Plans, as_json: bool, follow: bool) -> None:
    """Print what was started and what to type next, and with `follow` what becomes of it."""
    _print_launched(launched, as_json)
    if launched is None:
        return
    if plans.missing is None:
        _narrate_attempts(launched, plans)
    _narrate_next(launched, plans.plans)
    if follow:
        from rlx.cli.frame.follow_launch import follow_runs

        follow_runs(launched.runs)


def _check_recipe(recipe: str | None, sets: Sequence[str]) -> None:
    """Before a container is made for it. Standard input can be read only once, by whoever plans."""
    from rlx.api.recipes import recipe_file

    if recipe not in (None, "-"):
        recipe_file(recipe, sets)


def _of(wanted: _Wanted) -> Plans:
    return _dealt(wanted) if wanted.spread else _planned(wanted)


def _planned(wanted: _Wanted) -> Plans:
    """Plan the recipe; of an experiment what is missing, unless seeds are named or `again` is."""
    from rlx.api.host_check import HostLooks
    from rlx.api.target import named_target

    if wanted.recipe is None:
        fix = "rlx launch RECIPE, --plan FILE, or --script FILE --name N; rlx recipes lists some"
        raise UsageError("launch what?", fix)
    target = named_target(*wanted.where, consents=wanted.consents)
    looks = HostLooks(target, meanwhile=_import_what_launches)
    from rlx.api.missing_runs import plan_missing
    from rlx.api.planning import plan_at
    from rlx.api.recipes import recipe_file
    from rlx.cli.frame.output import patience

    arms, seeds, sets, send = wanted.arms, wanted.seeds, wanted.sets, wanted.send
    with patience(f"asking {', '.join(node.site.host for node in target.nodes)} …"):
        if seeds or wanted.again:
            return plan_at(wanted.recipe, arms, seeds or None, sets, target, looks, send=send)
        return plan_missing(recipe_file(wanted.recipe, sets), arms, target, looks, send=send)


def _import_what_launches() -> None:
    """It takes long, and is not needed to ask the host."""
    import rlx.runs  # noqa: F401


def _dealt(wanted: _Wanted) -> Plans:
    """Plan the recipe as a sweep over the hosts; of an experiment what is missing, as without --spread."""
    from rlx.api.sweeping import plan_sweep
    from rlx.cli.frame.output import patience

    hosts, container, devices = wanted.where
    if wanted.recipe is None or hosts is None:
        raise UsageError("launch what?", "rlx launch RECIPE --host A,B --spread; rlx recipes lists some")
    with patience(f"asking {hosts.replace(',', ', ')} …"):
        return plan_sweep(
            wanted.recipe,
            hosts,
            wanted.arms,
            wanted.seeds,
            container_name(container),
            wanted.sets,
            devices=devices,
            trust=wanted.consents,
            send=wanted.send,
            strict=wanted.strict,
            only_missing=not wanted.again,
        )


def _read(plan: str, consents: bool, *others: object) -> Plans:
    from rlx.api.saved_plans import plan_again, read_plans

    if any(other is not None and other != [] for other in others):
        options = "--arm, --seed, --set, --send, --host, --container, --image and --devices"
        raise UsageError("--plan is complete in itself", f"leave out the recipe, {options}")
    return plan_again(read_plans(plan), trust=consents)


def _refuse_or_warn(plans: Plans, strict: bool) -> None:
    """Say what is wrong with plans; what is fatal is in the refusal, which this raises."""
    from rlx.api.plans import finding_text
    from rlx.cli.frame.output import narrate
    from rlx.cli.plan import narrate_notes
    from rlx.cli.text.deal_text import deal_lines
    from rlx.cli.text.experiments_text import launch_lines

    for line in launch_lines(plans):
        narrate(line)
    narrate_notes(plans)
    for line in deal_lines(plans):
        narrate(f"rlx: {line}")
    for finding in () if strict else plans.warnings:
        narrate(f"rlx: {finding_text(finding)}")
    plans.refuse(strict)


def _ask_before_many(plans: Plans, yes: bool) -> None:
    """Raises UsageError where nobody can be asked."""
    from rlx.api.launching import size_of

    if len(plans.plans) <= MANY_RUNS or yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"this would start {size_of(plans)}", "-y starts them; --arm and --seed choose fewer")
    typer.confirm(f"Start {size_of(plans)}?", abort=True, err=True)


def _name_secrets(written: Plans, file: str | None, secret_file: str | None, yes: bool) -> None:
    """Tell which values a written plan has sent where, before it gets them. Raises UsageError if nobody can be asked.

    What has no value yet is asked for by its name. What `yes` agrees to is journaled.
    """
    from rlx.api.launching import note_agreed
    from rlx.cli.frame.output import narrate
    from rlx.cli.frame.secret_values import secret_values

    if file is None:
        return
    nodes = [node for plan in written.plans for node in plan.nodes]
    wanted = sorted({(name, _destination(node.site)) for node in nodes for name in node.secret_names})
    if not wanted:
        return
    narrate(f"rlx: the plan has secrets sent: {', '.join(f'{name} to {place}' for name, place in wanted)}")
    given = secret_values(secret_file)
    if not any(given.get(name) for name, _ in wanted):
        return
    if yes:
        note_agreed(((name, place) for name, place in wanted if given.get(name)), file)
        return
    if not sys.stdin.isatty():
        raise UsageError("sending these secrets needs an answer, and stdin is no terminal", "-y sends them")
    typer.confirm("Send them?", abort=True, err=True)


def _destination(site: Site) -> str:
    return f"{site.host} ({site.place.destination})" if site.place.destination else "this machine"


def _launched(plans: Plans, written: str | None, secret_file: str | None, strict: bool, yes: bool) -> Launched | None:
    """Ask and start them; None where there was nothing to start."""
    if not plans.plans:
        return None
    _ask_before_many(plans, yes)
    _name_secrets(plans, written, secret_file, yes)
    from rlx.api import launching
    from rlx.cli.frame.output import narrate, patience
    from rlx.cli.frame.secret_values import secret_values

    secrets = secret_values(secret_file, [name for plan in plans.plans for name in plan.secret_names])
    try:
        with patience(f"starting {len(plans.plans)} run{'s' * (len(plans.plans) != 1)} …"):
            return launching.launch(plans, secrets=secrets, strict=strict)
    except KeyboardInterrupt:
        narrate("\ninterrupted; runs may have started: rlx status. The same launch again completes it.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _print_launched(launched: Launched | None, as_json: bool) -> None:
    from rlx.cli.frame.output import print_json

    refs = launched.runs if launched else ()
    if as_json:
        names = ("run_id", "arm", "seed", "host")
        runs = [{**{name: getattr(ref, name) for name in names}, "run_dir": ref.shown_dir} for ref in refs]
        launch_id, completed = (launched.launch_id, launched.completed) if launched else (None, False)
        print_json({"launch_id": launch_id, "completed_earlier": completed, "runs": runs})
        return
    for ref in refs:
        print(ref.run_id)


def _narrate_attempts(launched: Launched, plans: Plans) -> None:
    """Say what has been launched once more, because each run of an experiment stands in its list."""
    from rlx.api.launching import earlier_attempts
    from rlx.cli.frame.output import narrate
    from rlx.cli.text.experiments_text import slots_text

    if again := dict.fromkeys((ref.seed, ref.arm) for ref in earlier_attempts(plans, launched)):
        counts = "all their runs stand in rlx experiments, and the first launch of a seed counts"
        narrate(f"launched before: {slots_text(again)}; {counts}")


def _narrate_next(launched: Launched, plans: Sequence[LaunchPlan]) -> None:
    from rlx.cli.frame.output import narrate

    for warning in launched.warnings:
        narrate(f"rlx: warning: {warning}")
    if launched.completed:
        narrate(f"rlx: this completes launch {launched.launch_id}, which was interrupted; nothing runs twice")
    arms = dict.fromkeys(plan.arm for plan in plans)
    control = plans[0].control
    narrate("watch: rlx status -w · rlx logs -f · end: rlx stop " + " ".join(arms))
    if control in arms and len(arms) > 1:
        narrate(f"result: rlx compare {control} " + " ".join(arm for arm in arms if arm != control))
