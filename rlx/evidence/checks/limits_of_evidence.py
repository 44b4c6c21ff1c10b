"""Report what cannot be shown: a missing recipe, an unconfirmed grammar, checks that the plan cannot make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import BUILTIN, noise_expectation
from rlx.evidence.grammars import grammars
from rlx.evidence.verdict import CheckFinding, counted, remark, unverified
from rlx.model import Link, NoiseSchedule, Severity

_NAMES = {
    Link.ASKED: "settings",
    Link.REACHED: "coverage",
    Link.DRAWN: "sample",
    Link.FELT: "response",
    Link.LIFTED: "removal",
    Link.TRAINED_ON: "training",
}
"""The checks of noise by the names in plans, as people call them."""


def check_recipe(given: CheckInput) -> Iterator[CheckFinding]:
    """Report that the run has no recipe, with the validations that were read from its configuration, if any.

    A note where rlx launched the run, and its log has all that the trainer composed: the other checks use that.
    """
    expectations = given.expectations
    steps = expectations.validation_steps
    due = f"{counted(len(steps), 'validation')}, the last at step {steps[-1]}" if steps else "no validation"
    if given.setup.is_composed:
        words = f"no recipe: it is checked against the configuration that the trainer composed ({due})"
        yield remark("RLX716", Severity.NOTE, words)
        return
    if expectations.is_read:
        found = unverified(
            "RLX716",
            f"no recipe: it is checked against the configuration that its log prints, not against a plan ({due})",
            "only a recipe states what is expected: rlx import or rlx track with --recipe, or rlx launch RECIPE",
        )
    else:
        found = unverified(
            "RLX716", "no recipe: no expected steps, validations or noise to check against", "import it with --recipe"
        )
    yield replace(found, is_missing=True)


def check_grammar(given: CheckInput) -> Iterator[CheckFinding]:
    """Report values that were read by rules which no real log has confirmed, because they may be wrong."""
    if unproven := given.evidence.unproven:
        grep = next((each.unproven_grep for each in grammars() if each.unproven == unproven), "")
        fix = "compare some values with the log: rlx logs RUN" + (f" --grep {grep}" if grep else "")
        yield unverified("RLX724", unproven, fix)


def check_links(given: CheckInput) -> Iterator[CheckFinding]:
    """Remark on checks of the noise that were never planned, so that every output names them."""
    if given.noise is None:
        return
    for words in _links(given.noise.schedule, has_recipe=given.has_recipe):
        what = f"the noise can be shown only as far as: {words}"
        yield remark("RLX679", Severity.NOTE, what, "aqn.provider: payload, with a rollout that rlx can probe")


def links_sentence(noise: NoiseSchedule) -> Iterator[str]:
    """Write `shown as far as: sample; response and removal cannot be shown by this fork`; nothing if all are planned.

    Only for a run whose planned checks are all passed.
    """
    for words in _links(noise):
        yield f"shown as far as: {words}"


def _links(noise: NoiseSchedule, *, has_recipe: bool = True) -> Iterator[str]:
    promised = noise_expectation(noise).links
    lacking = [link for link in Link if link not in promised]
    if promised and lacking:
        what = "by this fork" if noise.provider == BUILTIN else "by this back-end" if has_recipe else "without a recipe"
        *others, last = [_NAMES[link] for link in lacking]
        missing = " and ".join(filter(None, (", ".join(others), last)))
        yield f"{', '.join(_NAMES[link] for link in promised)}; {missing} cannot be shown {what}"
