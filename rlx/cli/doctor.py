"""rlx doctor: what a host has, and what of it would make a run fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rlx.plan import Finding, Site
    from rlx.preflight.probing.examined import Examined


def doctor(
    host: Annotated[str | None, typer.Argument(help="Host. Default: this machine.")] = None,
    container: Annotated[str | None, typer.Option(help="The container that runs would go into.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Also look for what this recipe needs: back-end, devices, model, data.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Look at a host: what it has, and what would make a run fail.

    One connection, and nothing is written there. Exit code 5 if a finding is an error, 4 if the host cannot be reached.
    """
    from rlx.cli.frame.output import narrate, print_json, print_text
    from rlx.cli.text.doctor_text import doctor_text
    from rlx.errors import ExitCode
    from rlx.hosts import site_of
    from rlx.preflight.doctor import findings_of, has_errors

    site = site_of(host or "local", container)
    where = f"{site.host}, container {site.container}" if site.container else site.host
    narrate(f"looking at {where} …")
    examined = _examine(site, recipe)
    findings = findings_of(examined)
    if as_json:
        print_json(document(examined, findings))
    else:
        print_text(doctor_text(examined, findings))
    if has_errors(findings):
        raise typer.Exit(ExitCode.PREFLIGHT_FAILED)


def _examine(site: Site, recipe: str | None) -> Examined:
    from rlx.hosts import transport_for
    from rlx.plan import Place
    from rlx.preflight.doctor import examine
    from rlx.preflight.wanted import Wanted, wanted_by
    from rlx.recipe import load_recipe

    wanted = wanted_by(load_recipe(recipe)) if recipe else Wanted()
    # The host itself is asked, also where the runs lie in a container: the probes for that one go along.
    outside = Place(site.place.host, site.place.destination, site.place.via)
    return examine(transport_for(outside), site, wanted)


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
