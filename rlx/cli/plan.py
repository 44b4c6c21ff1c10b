"""rlx plan: show what a launch would do, run by run, without doing any of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.site_options import ContainerOption, DevicesOption, HostOption, chosen_target

if TYPE_CHECKING:
    from rlx.api.planning import Draft


def plan(
    recipe: Annotated[str, typer.Argument(help="Recipe file, name of a recipe that comes with rlx, or - for stdin.")],
    arm: Annotated[list[str] | None, typer.Option(help="Arm; again for more. Default: every arm.")] = None,
    seed: Annotated[list[int] | None, typer.Option(metavar="N...", help="Seeds. Default: the recipe's.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key.")] = None,
    host: HostOption = None,
    container: ContainerOption = None,
    devices: DevicesOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    files: Annotated[bool, typer.Option("--files", help="Show the content of every file, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The plans as rlx launch --plan takes them.")] = False,
) -> None:
    """Show what would run, and what it promises.

    For each run: command, files, environment, expectations, memory and findings.
    Nothing is started or written. Exit code 2 or 5 if a finding is an error: rlx launch would refuse the recipe.
    """
    from rlx.api.planning import draft_plans, fatal_of, refusal_code
    from rlx.cli.frame.output import narrate

    target = chosen_target(host, container, devices)
    drafts = draft_plans(recipe, arm or (), seed or (), set_ or (), target)
    print_plans(drafts, as_json, files)
    if fatal := [finding for draft in drafts for finding in fatal_of(draft.plan, strict)]:
        narrate("rlx: this cannot be launched; see the findings")
        raise typer.Exit(refusal_code(fatal))


def print_plans(drafts: Sequence[Draft], as_json: bool, files: bool = False) -> None:
    """The plans on stdout, for `rlx plan` and `rlx launch --dry-run` alike; `memory` has an entry for each of them."""
    from rlx.cli.frame.output import print_json, print_text
    from rlx.cli.text.memory_text import memory_answer
    from rlx.cli.text.plan_text import plan_text

    if as_json:
        print_json({"plans": [draft.plan for draft in drafts], "memory": [memory_answer(draft) for draft in drafts]})
    else:
        print_text("\n\n".join(plan_text(draft, files) for draft in drafts))
