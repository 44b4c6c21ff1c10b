"""rlx plan: preview the runs and the evidence they must produce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import ARM_LIST, ARMS, NUMBER_LIST, RecipeArgument, SetOption
from rlx.cli.frame.output import console, narrate, patience, print_json, print_text
from rlx.cli.frame.site_options import (
    ContainerOption,
    DevicesOption,
    HostOption,
    NodesOption,
    SendOption,
    SpreadOption,
    TrustOption,
    check_hosts,
)
from rlx.cli.text.table_text import fitted

if TYPE_CHECKING:
    from rlx.api.planning import Plans


def plan(
    recipe: RecipeArgument,
    arm: Annotated[
        list[str] | None, typer.Option(metavar=ARM_LIST, help="Arms. Default: every arm.", autocompletion=ARMS)
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(metavar=NUMBER_LIST, help="Seeds. Default: those of the recipe.")
    ] = None,
    set_: SetOption = None,
    host: HostOption = None,
    spread: SpreadOption = False,
    nodes: NodesOption = False,
    container: ContainerOption = None,
    devices: DevicesOption = None,
    trust: TrustOption = False,
    send: SendOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also command, files, environment, ….")] = False,
    files: Annotated[bool, typer.Option("--files", help="Show the content of every file, too; implies -v.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The plans as rlx launch --plan takes them.")] = False,
) -> None:
    """Preview the runs and the evidence they must produce.

    First the findings. With -v for each run also command, files, environment, expectations and memory. A host that is
    named is checked. Nothing is started or written. Exit code 2 or 5 if a finding is an error: rlx launch would refuse
    the recipe.
    """
    from rlx.api import planning
    from rlx.api.earlier_runs import with_earlier_memory, with_power

    check_hosts(host, spread=spread, nodes=nodes)
    sets, sendable, what = set_ or (), send or (), (arm or (), seed or ())
    with patience(f"asking {host.replace(',', ', ')} …" if host else "planning …"):
        if spread and host is not None:
            from rlx.api.sweeping import plan_sweep

            plans = plan_sweep(
                recipe, host, *what, container, sets, devices=devices, trust=trust, send=sendable, strict=strict
            )
        else:
            plans = planning.plan(recipe, *what, host, container, sets, devices=devices, trust=trust, send=sendable)
    plans = with_earlier_memory(with_power(plans))
    narrate_notes(plans)
    print_plans(plans, as_json, files, verbose=verbose)
    exit_if_fatal(plans, strict)


def narrate_notes(plans: Plans) -> None:
    """Print warnings about the folders on the hosts, and which host takes which seeds."""
    for note in plans.notes:
        narrate(f"rlx: warning: {note}")
    if plans.distribution is not None:
        from rlx.cli.text.plan_text import distribution_lines

        for line in distribution_lines(plans):
            narrate(f"rlx: {line}")


def exit_if_fatal(plans: Plans, strict: bool) -> None:
    """Exit as a launch would be refused. `print_plans` has printed the findings, so they are not printed again."""
    from rlx.api.planning import refusal_code

    if fatal := plans.fatal(strict):
        errors = "errors, and with --strict the warnings" if strict else "errors"
        narrate(f"rlx: this cannot be launched; see the {errors}")
        raise typer.Exit(refusal_code(fatal))


def print_plans(
    plans: Plans, as_json: bool, files: bool = False, *, verbose: bool = False, written: bool = False
) -> None:
    """Print the plans, for `rlx plan` and for `rlx launch --dry-run`.

    The summary and the findings come first. All details of each run follow if they are asked for, and for `written`
    plans and the only run of a script, whose own description is not relied on: there launch.sh is shown instead of the
    command.
    """
    from rlx.api.scripts import check_written
    from rlx.cli.text.memory_text import memory_answer
    from rlx.cli.text.plan_text import (
        arms_table,
        experiment_section,
        findings_lines,
        headline,
        look_text,
        place_line,
        plan_text,
        power_section,
    )

    if as_json:
        memory = [memory_answer(planned) for planned in plans.planned_runs]
        check_written(plans.plans)
        answer = {"plans": plans.plans, "memory": memory, "findings": plans.findings, "power": plans.power}
        print_json(answer, verbatim=True)
        return
    if not plans.planned_runs:
        if plans.findings:
            print_text("\n".join(findings_lines(plans)))
        return
    print_text("\n".join([headline(plans), *findings_lines(plans), ""]))
    power = [*power_section(plans.power)]
    is_one_script = len(plans.plans) == 1 and not plans.plans[0].has_recipe
    if verbose or files or written or is_one_script:
        texts = [plan_text(planned, files, written=written) for planned in plans.planned_runs]
        print_text("\n\n".join([*texts, *power, *map(look_text, plans.looks)]), wraps=False)
        return
    out = console()
    out.print(fitted(arms_table(plans), out.width))
    if place := place_line(plans):
        print_text(place, wraps=False)
    for section in (*experiment_section(plans.registration), *power):
        print_text(f"\n{section}")
