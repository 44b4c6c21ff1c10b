"""Check that the data files of a recipe fit it, where a launch would read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlx.model import Severity

if TYPE_CHECKING:
    from rlx.api.recipes import Recipe
    from rlx.model import Finding, Site
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe as ReadRecipe


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
    from rlx.errors import UsageError
    from rlx.planning.rules import check

    for finding in check(resolved):
        if finding.id == "RLX026" and finding.severity is Severity.ERROR:
            raise UsageError(finding.message, finding.fix)
