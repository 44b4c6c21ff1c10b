"""rlx track: track a run started outside rlx."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.output import narrate, patience, print_json
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.model import Place

# The path begins at the first :/ or :~/ outside a URL, and may contain anything.
_HOST = r"ssh://[^/:\[]*(?:\[[^\]]*\])?(?::\d+)?|[^:/]+"
_LOG = re.compile(rf"(?P<host>{_HOST})(?::(?P<container>[^:/]+))?:(?P<path>~?/.+)", re.DOTALL)


def track(
    log: Annotated[
        str, typer.Argument(metavar="HOST[:CONTAINER]:LOG", help="Console log of the run, as on a3:/tmp/x.log.")
    ],
    name: Annotated[str, typer.Option(help="Name of the run.")],
    arm: Annotated[str | None, typer.Option(help="Which arm it is. Default: main, or the recipe's only one.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe of the run, with its expectations.")] = None,
    seed: Annotated[int | None, typer.Option(help="Its seed. Default: the recipe's, else 1.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of the run id.")] = False,
) -> None:
    """Track a run started outside rlx.

    From then on status, logs, wait and compare know it, and its log is read again by each of them while it grows.
    Nothing is written where it runs, and rlx stop refuses it. Without a recipe there are no expected steps or noise to
    check against: its verdict is unverified at best.
    """
    from rlx.api.tracking import adopt_at, plan_of

    place, path = parse_log(log)
    with patience():
        ref = adopt_at(place, path, plan_of(name, arm, recipe, seed))
    if as_json:
        print_json({"run_id": ref.run_id, "arm": ref.arm, "seed": ref.seed, "run_dir": str(ref.run_dir)})
    else:
        print(ref.run_id)
    narrate(f"watch: rlx status {name} · rlx logs -f {ref.run_id}")


def parse_log(text: str) -> tuple[Place, str]:
    """Return where the log is, and its path there. Raise UsageError."""
    from rlx.api.tracking import place_of_log

    match = _LOG.fullmatch(text)
    if match is None or "\0" in text:
        raise UsageError(
            f"{text!r} names no log", "write HOST:/path/to/log, HOST:CONTAINER:/path/to/log or local:/path"
        )
    return place_of_log(match["host"], match["container"]), match["path"]
