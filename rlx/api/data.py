"""Check that the data files of a recipe fit it, where a launch would read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlx.api.runs import unheard
from rlx.errors import RlxError, UsageError
from rlx.installed import install_command
from rlx.model import Severity

if TYPE_CHECKING:
    from rlx.api.recipes import Recipe
    from rlx.api.runs import Tell
    from rlx.hosts import Completed
    from rlx.model import Finding, Site
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe as ReadRecipe

_HINTS = {
    "checkout": "name the root of the back-end's checkout",
    "preprocessing": "run it by hand in the checkout, for all that it says",
    "differs": "nothing was written; name another folder with --to, or replace it with --force",
    "failed": "choose a folder that can be written to and has room, with --to",
    "unreadable": "fetch the file again; `git lfs` pointers and interrupted downloads look like this",
}
_MAKER = "tiny_addition.py"
_PACKAGES = ("torch", "transformers", "pyarrow")
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class DataCheck:
    """`files`: what was found of each, by its role."""

    findings: tuple[Finding, ...]
    files: dict[str, Any]

    def fits(self, strict: bool = False) -> bool:
        """Tell whether there is no error, and with `strict` no warning."""
        fatal = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
        return not any(finding.severity in fatal for finding in self.findings)


def check_data(
    recipe: Recipe,
    site: Site,
    arm: str | None = None,
    sets: Sequence[str] = (),
    *,
    trust: bool = False,
    send: Sequence[str] = (),
) -> DataCheck:
    """Look at the files of an arm, by default the control's, at that place; `trust` runs its reward function there.

    Raises UsageError for an invalid recipe, and for a private reward file that `send` does not name; RlxError where the
    files cannot be looked at.
    """
    from rlx.api.recipes import recipe_file
    from rlx.hosts.sent_python import place_text
    from rlx.planning.data_files import examine

    file = recipe_file(recipe, sets)
    resolved = replace(file.resolve(arm or file.control or file.arms[0]), sendable=tuple(send))
    _refuse_private(resolved)
    facts = examine(resolved, site, calls_reward=trust)
    return judge_answer(resolved.recipe, facts, place_text(site), called_reward=trust)


def judge_answer(recipe: ReadRecipe, facts: Mapping[str, Any], where: str, *, called_reward: bool = False) -> DataCheck:
    """Judge what a place tells of the data. Raises HostError where that has another form than examine_data.py's."""
    from rlx.hosts.host_errors import reading_answer
    from rlx.planning.data_files import data_findings

    with reading_answer(where, "what its data files hold"):
        findings = data_findings(recipe, facts, called_reward=called_reward)
        return DataCheck(findings, {role: facts["files"][role] for role in ("train", "val")})


def _refuse_private(resolved: ResolvedRecipe) -> None:
    from rlx.planning.rules import check

    for finding in check(resolved):
        if finding.id == "RLX026" and finding.severity is Severity.ERROR:
            raise UsageError(finding.message, finding.fix)


def data_site(host: str | None, container: str | None) -> Site:
    """Return the named place; without a name it is this machine."""
    from rlx.hosts import site_of

    return site_of(host or "local", container)


def refuse_relative(site: Site, option: str, path: str) -> None:
    """Refuse a relative path elsewhere, because its base folder there is not known."""
    from rlx.hosts.sent_python import is_here

    if not is_here(site) and not path.startswith(("/", "~/")):
        raise UsageError(f"{option} {path} is not a full path on {site.host}", "begin it with / or ~/")


def packages_error(where: str, detail: str) -> RlxError:
    """Return the error of a maker that lacks packages."""
    return RlxError(
        f"{where}: parquet files need {detail}",
        f"here: {install_command('data')}; elsewhere name the container that has it: --container NAME",
    )


def refusal(answer: dict[str, Any], where: str) -> RlxError:
    """Read the answer of a payload module that could not do its work."""
    if answer["problem"] == "packages":
        return packages_error(where, answer["detail"])
    return RlxError(f"{where}: {answer['detail']}", _HINTS.get(answer["problem"], "correct the path"))


def make_tiny_data(site: Site, to: str, *, force: bool = False, tell: Tell = unheard) -> dict[str, Any]:
    """Make the tiny model and its data in the folder `to` at that place, unless it is complete; `force` makes it anew.

    Returns the folder, and whether something was made. Raises UsageError for a relative path elsewhere, RlxError where
    packages are missing, or the folder holds something else.
    """
    from rlx.hosts.host_errors import reading_answer
    from rlx.hosts.sent_python import answer_of, place_text

    refuse_relative(site, "--to", to)
    where = place_text(site)
    tell(f"{where}: making {to} (seconds)")
    completed = _run(site, [to, *_PACKAGES, *(["--force"] if force else [])])
    answer = answer_of(completed.out, completed.err, completed.code, where)
    with reading_answer(where, "rlx data"):
        if "problem" in answer:
            raise _error(answer, where, completed)
        return {**answer, "folder": str(answer["folder"]), "made": bool(answer["made"])}


def _run(site: Site, arguments: list[str]) -> Completed:
    """Run the maker there: the program is an argument, its input is stdin, and nothing else is written."""

    from rlx.hosts import transport_for
    from rlx.hosts.sent_python import python_here_or_there
    from rlx.resources import payload_folder

    program = (payload_folder() / "make_folder.py").read_text(encoding="utf-8")
    place = replace(site.place, inside=site.container) if site.container else site.place
    command = python_here_or_there(site, program, *arguments)
    return transport_for(place).run(command, stdin=(payload_folder() / _MAKER).read_bytes(), timeout_s=_TIMEOUT_S)


def _error(answer: dict[str, Any], where: str, completed: Completed) -> RlxError:
    from rlx.backends.registry import kinds
    from rlx.planning.rehearsal import rehearser_of

    if answer["problem"] == "packages":
        return RlxError(
            f"{where}: making a tiny model needs {answer['detail']}",
            rehearser_of(kinds()[0]).FIX,
        )
    if answer["problem"] == "foreign":
        return RlxError(
            f"{where}: {answer['folder']} holds something that rlx did not make",
            "name an empty or new folder with --to",
        )
    said = completed.err.decode(errors="replace").strip().splitlines()
    return RlxError(
        f"{where}: {answer['folder']} could not be made: {said[-1][:500] if said else answer['detail']}",
        "check with df -h and ls -ld that it has room and that you may write there",
    )
