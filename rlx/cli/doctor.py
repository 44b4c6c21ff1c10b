"""rlx doctor: check a host for problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.completion import HOSTS, RECIPES
from rlx.cli.frame.site_options import TrustOption

if TYPE_CHECKING:
    from rlx.model import Finding
    from rlx.planning.probing.examined import Examined


def doctor(
    host: Annotated[str | None, typer.Argument(help="Host. Default: this machine.", autocompletion=HOSTS)] = None,
    container: Annotated[str | None, typer.Option(help="The container that runs would go into.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="Also check what this recipe needs: back-end, devices, model, data.", autocompletion=RECIPES),
    ] = None,
    trust: TrustOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Check a host for problems.

    Devices, software, disks and what would make a run fail. One connection, and nothing is left there. With a recipe,
    the findings are those of rlx plan and rlx launch, with their exit codes: 2 if an error is the recipe's own, 5 for
    any other; 4 if the host cannot be reached.
    """
    from rlx.api.checkup import examine_host
    from rlx.cli.frame.output import narrate, print_json, print_text
    from rlx.cli.text.doctor_text import doctor_text

    where = f"{host or 'local'}, container {container}" if container else host or "local"
    narrate(f"looking at {where} …")
    checkup = examine_host(host or "local", container, recipe, trust=trust)
    for note in checkup.notes:
        narrate(f"rlx: warning: {note}")
    if as_json:
        print_json(document(checkup.examined, checkup.findings))
    else:
        print_text(doctor_text(checkup.examined, checkup.findings))
    if (code := checkup.exit_code()) is not None:
        raise typer.Exit(code)


def document(examined: Examined, findings: Sequence[Finding]) -> dict[str, Any]:
    """Write `--json`: the facts by probe, of the host and of the container; sizes have their unit in the key."""
    inside = examined.inside
    return {
        "host": examined.site.host,
        "container": examined.site.container,
        "clock_ahead_s": [examined.clock.least, examined.clock.most] if examined.clock else None,
        "facts": {"host": examined.host.facts, "container": inside.facts if inside else None},
        "unanswered": {"host": examined.host.silent, "container": inside.silent if inside else None},
        "findings": findings,
    }
