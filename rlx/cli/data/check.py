"""`rlx data check`: whether the data files of a recipe fit it, before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.site_options import ContainerOption, HostOption, SendOption

if TYPE_CHECKING:
    from rlx.model import Finding


def check(
    recipe: Annotated[str, typer.Argument(help="Recipe file, name of a bundled recipe, or - for standard input.")],
    arm: Annotated[str | None, typer.Option(help="The arm whose data is meant; default: the control.")] = None,
    host: HostOption = None,
    container: ContainerOption = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value, such as data.val=/tmp/v.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the recipe's own reward function, where the data lies, on some rows.")
    ] = False,
    send: SendOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> None:
    """Check that the data files fit the recipe.

    Rows, columns, chat messages, ground truths for the recipe's reward, prompt lengths where the model's tokenizer is,
    and questions that both files have. Files are looked at where a launch would read them. Exit 5 if they do not fit.
    """
    from rlx.api.data_check import check_data
    from rlx.cli.frame.output import patience, print_json
    from rlx.cli.frame.site_options import chosen_target
    from rlx.errors import ExitCode
    from rlx.hosts.sent_python import place_text
    from rlx.recipe import load_recipe

    file = load_recipe(recipe, sets or ())
    site = chosen_target(host, container).site
    with patience():
        checked = check_data(file, site, arm, trust=trust, send=send or ())
    fits = checked.fits(strict)
    if as_json:
        print_json({"recipe": recipe, "fits": fits, "findings": checked.findings, "files": checked.files})
    else:
        _print(recipe, place_text(site), fits, checked.findings, checked.files)
    if not fits:
        raise typer.Exit(ExitCode.PREFLIGHT_FAILED)


def _print(recipe: str, where: str, fits: bool, findings: tuple[Finding, ...], files: dict[str, Any]) -> None:
    from rlx.api.plans import finding_text
    from rlx.cli.frame.output import print_text

    rows = ", ".join(
        f"{role} {file['rows']:,} rows" for role, file in files.items() if isinstance(file.get("rows"), int)
    )
    print_text(f"{recipe}: the data on {where} {'fits' if fits else 'does not fit'}{f' ({rows})' if rows else ''}")
    for finding in findings:
        print_text("  " + finding_text(finding).replace("\n", "\n  "))
