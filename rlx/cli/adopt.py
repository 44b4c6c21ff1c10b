"""rlx adopt: take in a run that somebody started by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.plan import LaunchPlan, Place

# The path begins at the first :/ or :~/ that is no part of a URL; what is behind it may hold anything.
_HOST = r"ssh://[^/:\[]*(?:\[[^\]]*\])?(?::\d+)?|[^:/]+"
_LOG = re.compile(rf"(?P<host>{_HOST})(?::(?P<container>[^:/]+))?:(?P<path>~?/.+)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def adopt(
    log: Annotated[
        str, typer.Argument(metavar="HOST[:CONTAINER]:LOG", help="Console log of the run, as on a3:/tmp/x.log.")
    ],
    name: Annotated[str, typer.Option(help="What to call the run.")],
    arm: Annotated[str | None, typer.Option(help="Which arm it is. Default: main, or the recipe's only one.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe that says what the run promises.")] = None,
    seed: Annotated[int | None, typer.Option(help="Its seed. Default: the recipe's, else 1.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of the run id.")] = False,
) -> None:
    """Take in a run that somebody started by hand.

    From then on status, logs, wait and compare know it, and its log is read again at each look, while it grows.
    Nothing is written where it runs, and rlx stop refuses it. Without a recipe nothing says what it was to show, so
    its verdict is unverified at best.
    """
    from rlx.cli.output import narrate, print_json
    from rlx.cli.selection import open_index
    from rlx.runs.adopted.adopt import adopt as take_in

    place, path = parse_log(log)
    plan = _plan(name, arm, recipe, seed)
    ref = take_in(open_index(), place, path, plan, planned=recipe is not None)
    if as_json:
        print_json({"run_id": ref.run_id, "arm": ref.arm, "seed": ref.seed, "run_dir": str(ref.run_dir)})
    else:
        print(ref.run_id)
    narrate(f"watch: rlx status {name} · rlx logs -f {ref.run_id}")


def parse_log(text: str) -> tuple[Place, str]:
    """Where the log is, and its path there. Raises UsageError."""
    from dataclasses import replace

    from rlx.hosts import site_of

    match = _LOG.fullmatch(text)
    if match is None or "\0" in text:
        raise UsageError(
            f"{text!r} names no log", "write HOST:/path/to/log, HOST:CONTAINER:/path/to/log or local:/path"
        )
    # An empty container is none, also where the host's entry names one: the log is the host's own.
    site = site_of(match["host"], match["container"] or "")
    return replace(site.place, inside=site.container), match["path"]


def _plan(name: str, arm: str | None, recipe: str | None, seed: int | None) -> LaunchPlan:
    from dataclasses import replace

    from rlx.runs.adopted.adopt import unplanned

    for label, text in (("--name", name), ("--arm", arm or "main")):
        if not _NAME.fullmatch(text):
            raise UsageError(f"{label} {text!r}", "use up to 100 letters, digits and . _ - (not first)")
    if recipe is None:
        return unplanned(name, arm or "main", 1 if seed is None else seed, "verl")
    return replace(_recipe_plan(recipe, arm, seed), name=name)


def _recipe_plan(recipe: str, arm: str | None, seed: int | None) -> LaunchPlan:
    from rlx.cli.planning import draft_plans
    from rlx.cli.site import Target
    from rlx.hosts import Host
    from rlx.plan import LOCAL, Site

    nowhere = Target(Host(LOCAL.host), Site())
    plans = draft_plans(recipe, [arm] if arm else [], [] if seed is None else [seed], [], nowhere)
    if len(plans) > 1:
        arms = ", ".join(plan.arm for plan in plans)
        raise UsageError(f"{recipe} has several arms: {arms}", "say which one the log is of: --arm")
    return plans[0]
