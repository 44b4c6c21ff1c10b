"""rlx launch: launch a recipe, or your own script, as detached runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.api.earlier_runs import with_power
from rlx.api.launching import MANY_RUNS
from rlx.cli.frame.options import (
    AFTER_DASHES,
    ARM_LIST,
    ARMS,
    NAME_LIST,
    NUMBER_LIST,
    RECIPES,
    FollowOption,
    SecretFileOption,
    SetOption,
)
from rlx.cli.frame.output import narrate, patience, print_json
from rlx.cli.frame.run_progress import follow_runs
from rlx.cli.frame.secret_values import secret_values, variables
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
from rlx.cli.plan import exit_if_fatal, narrate_notes, print_plans
from rlx.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rlx.api.planning import Plans
    from rlx.model import Site
    from rlx.runs import Launched

COMMAND_LINE = ""
"""In place of the name of a script: the arguments are a command line."""

_RecipeArgument = Annotated[
    str | None,
    typer.Argument(help="Recipe file, name of a bundled recipe, or - for stdin.", autocompletion=RECIPES),
]
_ArmOption = Annotated[
    list[str] | None,
    typer.Option(metavar=ARM_LIST, help="Arms. Default: all. Of a script: NAME, or NAME:K=V.", autocompletion=ARMS),
]
_YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help=f"Do not ask before starting over {MANY_RUNS}; implies --trust.")
]
_ScriptOption = Annotated[
    str | None, typer.Option("--script", metavar="FILE", help="Your own bash script in place of a recipe, unchanged.")
]
_NameOption = Annotated[
    str | None, typer.Option("--name", help="Name of the experiment of a script; its runs are one group.")
]
_AqnOption = Annotated[
    str | None,
    typer.Option(
        "--aqn",
        metavar="KEY=VALUE,...",
        help="Noise around a script: sigma_start, sigma_end, stages, and steps where the script does not set them.",
    ),
]
_ExpectOption = Annotated[
    str | None,
    typer.Option("--expect", metavar="KEY=N,...", help="What a script must show: steps, every, items."),
]
_WorkdirOption = Annotated[
    str | None, typer.Option("--workdir", help="Where a script starts on its host. Default: here, or its home.")
]
_SecretOption = Annotated[
    list[str] | None, typer.Option("--secret", metavar=NAME_LIST, help="A variable that a script gets, never shown.")
]
_EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K=V", help="A variable that a script gets; K alone: its value here."),
]
_EnvFileOption = Annotated[
    str | None, typer.Option("--env-file", metavar="FILE", help="NAME=VALUE lines, as with --env.")
]
_ArgsOption = Annotated[list[str] | None, typer.Option("--script-args", metavar=AFTER_DASHES, hidden=True)]
_AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-lines", help="Launch a script even if it affects other processes (RLX031, RLX032, RLX046, RLX047)."
    ),
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
    set_: SetOption = None,
    secret_file: SecretFileOption = None,
    send: SendOption = None,
    plan: Annotated[str | None, typer.Option(help="Launch what rlx plan --json wrote; - is stdin.")] = None,
    script: _ScriptOption = None,
    name: _NameOption = None,
    aqn: _AqnOption = None,
    expect: _ExpectOption = None,
    workdir: _WorkdirOption = None,
    secret: _SecretOption = None,
    env: _EnvOption = None,
    env_file: _EnvFileOption = None,
    script_args: _ArgsOption = None,
    accept_lines: _AcceptOption = False,
    again: Annotated[bool, typer.Option("--again", help="Also relaunch registered runs that exist.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    trust: TrustOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plans, as rlx plan does.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With --dry-run: all of each run.")] = False,
    follow: FollowOption = False,
    yes: _YesOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of run ids.")] = False,
) -> None:
    """Launch a recipe, or your own script, as detached runs.

    One run per arm, seed by seed; they wait for devices in that order. A recipe with an `experiment` is registered, and
    only its missing runs are launched unless --seed names some. Prints the run ids. The same launch typed again after
    an interruption completes it. --script FILE --name N runs your own bash script, as rlx run does.
    """
    if script is None and recipe is None and len(script_args or ()) == 1:
        recipe, script_args = (script_args or [""])[0], None
    own_script = _OwnScript(
        script, name, aqn, expect, workdir, secret or (), env or (), env_file, script_args or (), accept_lines
    )
    own_script.check(arm or (), recipe or set_ or send or plan or again or spread)
    consents = trust or yes or not dry_run
    check_recipe = None if dry_run or plan is not None else partial(_check_recipe, recipe, set_ or ())
    where = chosen_where(host, container, image, devices, spread=spread, nodes=nodes, before=check_recipe)
    if own_script.is_given:
        plans = own_script.plan(arm or (), seed or (), where)
    elif plan is not None:
        plans = _read_plans(plan, consents, recipe, arm, seed, set_, *where, send, again or None)
    else:
        choice = _Choice(recipe, arm or (), seed or (), set_ or (), send or (), again, consents)
        plans = choice.plan_sweep(where, strict) if spread else choice.plan(where)
    plans = with_power(plans)
    _narrate(plans)
    if dry_run:
        from rlx.api.earlier_runs import with_earlier_memory

        print_plans(with_earlier_memory(plans), as_json, verbose=verbose, written=plan is not None)
        exit_if_fatal(plans, strict)
        return
    _refuse_or_warn(plans, strict)
    launched = _start(plans, plan, secret_file, strict, yes)
    _print_launched(launched, as_json)
    if launched is not None:
        _suggest_next(launched, plans)
        if follow:
            follow_runs(launched.runs)


@dataclass(frozen=True, slots=True)
class _OwnScript:
    """The options about a bash script of the user's own; `script` is COMMAND_LINE for `args` without one."""

    script: str | None
    name: str | None
    aqn: str | None
    expect: str | None
    workdir: str | None
    secrets: Sequence[str]
    env: Sequence[str]
    env_file: str | None
    args: Sequence[str]
    accepts_lines: bool

    @property
    def is_given(self) -> bool:
        return self.script is not None

    @property
    def path(self) -> str | None:
        return None if self.script == COMMAND_LINE else self.script

    def check(self, arms: Sequence[str], others: object) -> None:
        """Read the script, if any; no host is asked. Raise UsageError for options that do not go together.

        `others`: options that only a recipe takes.
        """
        from rlx.api.scripts import read_script

        if self.script is None:
            if self.args:
                words = " ".join(self.args)
                raise UsageError(f"-- {words}: arguments of no script", f"add --script FILE; or rlx run -- {words}")
            given = (self.name, self.aqn, self.expect, self.workdir, self.secrets, self.env, self.env_file)
            if any(given) or self.accepts_lines:
                options = "--name, --aqn, --expect, --workdir, --secret, --env, --env-file and --accept-lines"
                raise UsageError(f"{options} are about a script", "add --script FILE; a recipe has keys for them")
            return
        if self.name is None:
            raise UsageError("what is the experiment called?", "rlx launch --script FILE --name NAME --arm ARM")
        if others:
            raise UsageError(
                "--script takes no recipe", "leave out the recipe, --set, --send, --plan, --again and --spread"
            )
        read_script(self.path, self.name, arms, self.aqn, variables(self.env, self.env_file), self.args, self.expect)

    def plan(self, arms: Sequence[str], seeds: Sequence[int], where: Where) -> Plans:
        """Plan the script, after `check`."""
        from rlx.api.scripts import plan_script

        assert self.name is not None
        host, container, devices = where
        with patience(f"asking {host or 'the host'} …"):
            return plan_script(
                self.path,
                self.name,
                arm=arms,
                seed=seeds,
                aqn=self.aqn,
                expect=self.expect,
                host=host,
                container=container,
                devices=devices,
                workdir=self.workdir,
                secrets=self.secrets,
                accepts_lines=self.accepts_lines,
                env=variables(self.env, self.env_file),
                args=self.args,
            )


@dataclass(frozen=True, slots=True)
class _Choice:
    """What of a recipe is launched. With `again`, also registered runs that exist; `consents` is --trust."""

    recipe: str | None
    arms: Sequence[str]
    seeds: Sequence[int]
    sets: Sequence[str]
    send: Sequence[str]
    again: bool
    consents: bool

    def plan(self, where: Where) -> Plans:
        """Plan the recipe; of an experiment the missing runs, unless seeds are named or `again` is set."""
        from rlx.api.hosts import HostQueries, named_target

        if self.recipe is None:
            fix = "rlx launch RECIPE, rlx launch --plan FILE, or rlx run SCRIPT; rlx recipes lists some"
            raise UsageError("launch what?", fix)
        target = named_target(*where, consents=self.consents)
        looks = HostQueries(target, meanwhile=_import_launching)
        from rlx.api.planning import plan_at, plan_missing
        from rlx.api.recipes import recipe_file

        with patience(f"asking {', '.join(node.site.host for node in target.nodes)} …"):
            if self.seeds or self.again:
                return plan_at(self.recipe, self.arms, self.seeds or None, self.sets, target, looks, send=self.send)
            return plan_missing(recipe_file(self.recipe, self.sets), self.arms, target, looks, send=self.send)

    def plan_sweep(self, where: Where, strict: bool) -> Plans:
        """Plan the recipe as a sweep over the hosts; of an experiment the missing runs, unless `again` is set."""
        from rlx.api.sweeping import plan_sweep

        hosts, container, devices = where
        if self.recipe is None or hosts is None:
            raise UsageError("launch what?", "rlx launch RECIPE --host A,B --spread; rlx recipes lists some")
        with patience(f"asking {hosts.replace(',', ', ')} …"):
            return plan_sweep(
                self.recipe,
                hosts,
                self.arms,
                self.seeds,
                container_name(container),
                self.sets,
                devices=devices,
                trust=self.consents,
                send=self.send,
                strict=strict,
                only_missing=not self.again,
            )


def _import_launching() -> None:
    """Import the package that launches, which takes long, while the host is being queried."""
    import rlx.runs  # noqa: F401


def _check_recipe(recipe: str | None, sets: Sequence[str]) -> None:
    """Check the recipe before a container is made for it. Standard input is left to the planner: it is read once."""
    from rlx.api.recipes import recipe_file

    if recipe not in (None, "-"):
        recipe_file(recipe, sets)


def _read_plans(plan: str, consents: bool, *others: object) -> Plans:
    """Read what `rlx plan --json` wrote. Raise UsageError for options beside it."""
    from rlx.api.launching import plan_again, read_plans

    if any(other is not None and other != [] for other in others):
        options = "--arm, --seed, --set, --send, --host, --container, --image and --devices"
        raise UsageError("--plan is complete in itself", f"leave out the recipe, {options}")
    return plan_again(read_plans(plan), trust=consents)


def _narrate(plans: Plans) -> None:
    """Print the registered question, warnings about folders, and which host takes which seeds."""
    # What this imports takes a quarter of a launch's time.
    if plans.registration is not None:
        from rlx.cli.text.experiment_text import launch_lines

        for line in launch_lines(plans):
            narrate(line)
    narrate_notes(plans)


def _refuse_or_warn(plans: Plans, strict: bool) -> None:
    """Print the warnings about the plans. Raise the refusal, which holds the fatal findings."""
    from rlx.model import Severity, finding_text

    # Notes about a script are about the user's own lines; those about a recipe stand in rlx plan.
    notes = [] if all(plan.has_recipe for plan in plans.plans) else plans.of(Severity.NOTE)
    for finding in () if strict else (*plans.warnings, *notes):
        narrate(f"rlx: {finding_text(finding)}")
    plans.refuse(strict)


def _start(plans: Plans, written: str | None, secret_file: str | None, strict: bool, yes: bool) -> Launched | None:
    """Ask for consent, then start the runs; return None if there is nothing to start."""
    if not plans.plans:
        return None
    _confirm_many(plans, yes)
    if written is not None:
        _confirm_secrets(plans, written, secret_file, yes)
    from rlx.api import launching

    secrets = secret_values(secret_file, [name for plan in plans.plans for name in plan.secret_names])
    try:
        with patience(f"starting {len(plans.plans)} run{'s' * (len(plans.plans) != 1)} …"):
            return launching.launch(plans, secrets=secrets, strict=strict)
    except KeyboardInterrupt:
        narrate("\ninterrupted; runs may have started: rlx status. The same launch again completes it.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _confirm_many(plans: Plans, yes: bool) -> None:
    """Ask before many runs are started. Raise UsageError if there is no terminal."""
    from rlx.api.launching import size_of

    if len(plans.plans) <= MANY_RUNS or yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"this would start {size_of(plans)}", "-y starts them; --arm and --seed choose fewer")
    typer.confirm(f"Start {size_of(plans)}?", abort=True, err=True)


def _confirm_secrets(plans: Plans, file: str, secret_file: str | None, yes: bool) -> None:
    """Name the secrets that written plans send, and where, and ask. Raise UsageError if there is no terminal.

    Secrets without a value are asked for later, by name. What `yes` agrees to is noted in the journal.
    """
    from rlx.api.launching import note_agreed

    nodes = [node for plan in plans.plans for node in plan.nodes]
    sent = sorted({(name, _destination(node.site)) for node in nodes for name in node.secret_names})
    if not sent:
        return
    narrate(f"rlx: the plan has secrets sent: {', '.join(f'{name} to {place}' for name, place in sent)}")
    given = secret_values(secret_file)
    if not any(given.get(name) for name, _ in sent):
        return
    if yes:
        note_agreed(((name, place) for name, place in sent if given.get(name)), file)
        return
    if not sys.stdin.isatty():
        raise UsageError("sending these secrets needs an answer, and stdin is no terminal", "-y sends them")
    typer.confirm("Send them?", abort=True, err=True)


def _destination(site: Site) -> str:
    return f"{site.host} ({site.place.destination})" if site.place.destination else "this machine"


def _print_launched(launched: Launched | None, as_json: bool) -> None:
    refs = launched.runs if launched else ()
    if as_json:
        names = ("run_id", "arm", "seed", "host")
        runs = [{**{name: getattr(ref, name) for name in names}, "run_dir": ref.shown_dir} for ref in refs]
        launch_id, completed = (launched.launch_id, launched.completed) if launched else (None, False)
        print_json({"launch_id": launch_id, "completed_earlier": completed, "runs": runs})
        return
    for ref in refs:
        print(ref.run_id)


def _suggest_next(launched: Launched, plans: Plans) -> None:
    """Say what to type next; first warnings, and which runs of an experiment were launched before."""
    from rlx.api.launching import earlier_attempts

    again = (
        {}
        if plans.missing is not None
        else dict.fromkeys((ref.seed, ref.arm) for ref in earlier_attempts(plans, launched))
    )
    if again:
        from rlx.cli.text.experiment_text import slots_text

        counts = "rlx experiments lists all their runs, and the first launch of a seed counts"
        narrate(f"launched before: {slots_text(again)}; {counts}")
    for warning in launched.warnings:
        narrate(f"rlx: warning: {warning}")
    if launched.completed:
        narrate(f"rlx: this completes launch {launched.launch_id}, which was interrupted; nothing runs twice")
    arms = dict.fromkeys(plan.arm for plan in plans.plans)
    control = plans.plans[0].control
    narrate("watch: rlx status -w · rlx logs -f · end: rlx stop " + " ".join(arms))
    if control in arms and len(arms) > 1:
        narrate(f"result: rlx compare {control} " + " ".join(arm for arm in arms if arm != control))
