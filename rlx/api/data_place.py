"""Reach the place where data is made or looked at: this machine, a host, or its container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError, UsageError
from rlx.installed import install_command

if TYPE_CHECKING:
    from rlx.model import Site


def data_site(host: str | None, container: str | None) -> Site:
    """The named place; data belongs to this machine unless one is named."""
    from rlx.hosts import site_of

    return site_of(host or "local", container)


def refuse_relative(site: Site, option: str, path: str) -> None:
    """Refuse a relative path elsewhere, because nobody knows what it starts from there."""
    from rlx.hosts.sent_python import is_here

    if not is_here(site) and not path.startswith(("/", "~/")):
        raise UsageError(f"{option} {path} is not a full path on {site.host}", "begin it with / or ~/")


def packages_error(where: str, detail: str) -> RlxError:
    return RlxError(
        f"{where}: parquet files need {detail}",
        f"here: {install_command('data')}; elsewhere name the container that has it: --container NAME",
    )


def refusal(answer: dict[str, Any], where: str) -> RlxError:
    """Read the answer of a payload module that could not do its work."""
    if answer["problem"] == "packages":
        return packages_error(where, answer["detail"])
    return RlxError(f"{where}: {answer['detail']}", _HINTS.get(answer["problem"], "correct the path"))


_HINTS = {
    "checkout": "name the root of the back-end's checkout",
    "preprocessing": "run it by hand in the checkout, for all that it says",
    "differs": "nothing was written; name another folder with --to, or replace it with --force",
    "failed": "choose a folder that can be written to and has room, with --to",
    "unreadable": "fetch the file again; `git lfs` pointers and interrupted downloads look like this",
}
