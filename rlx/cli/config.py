"""rlx config: show or set your default host and the folder of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.output import console, narrate, print_json, print_text
from rlx.cli.text.table_text import fitted
from rlx.errors import ExitCode
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.api.settings import Setting

config = typer.Typer(
    name="config", help="Show or set your default host and the folder of its runs.", rich_markup_mode=None
)

_Key = Annotated[str, typer.Argument(metavar="KEY", help="host, container or root.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


@config.callback(invoke_without_command=True)
def _alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


@config.command("list")
def list_(as_json: _Json = False) -> None:
    """List the settings, and where each is written.

    host: for commands that name none. container: on that host. root: the folder of its runs. Then the folders and files
    of rlx, which RLX_HOME, RLX_CONFIG and RLX_PROJECT name.
    """
    from rlx.api.settings import settings

    shown = settings()
    if as_json:
        print_json({"settings": shown})
        return
    columns = [
        Column("setting", [setting.key for setting in shown]),
        Column("value", [setting.value or "–" for setting in shown], flows=True),
        Column("written in", [setting.written or "default" for setting in shown], rank=1, flows=True),
    ]
    out = console()
    out.print(fitted(Table(columns), out.width))


@config.command("get")
def get(key: _Key, as_json: _Json = False) -> None:
    """Print one setting. Exit code 1 if it has no value."""
    from rlx.api.settings import setting

    shown = setting(key)
    if as_json:
        print_json({"setting": shown})
    elif shown.value is not None:
        print_text(shown.value)
    if shown.value is None:
        raise typer.Exit(ExitCode.ERROR)


@config.command("set")
def set_(key: _Key, value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")]) -> None:
    """Set the default host, its container, or the folder of its runs, in your hosts.yaml."""
    from rlx.api.settings import change_setting

    _report(change_setting(key, value), value)


@config.command("unset")
def unset(key: _Key) -> None:
    """Remove a setting from your hosts.yaml."""
    from rlx.api.settings import change_setting

    _report(change_setting(key, None), None)


def _report(setting: Setting, wanted: str | None) -> None:
    where = f" ({setting.written})" if setting.written else " (default)"
    narrate(f"rlx: {setting.key} is {setting.value}{where}" if setting.value else f"rlx: {setting.key} is not set")
    if wanted not in (None, setting.value):
        narrate(f"rlx: warning: {setting.written} takes precedence over what was written")
