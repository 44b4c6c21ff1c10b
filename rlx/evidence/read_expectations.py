"""Expect of a run without a recipe what the configuration in its log says that it is to do.

A configuration that is read promises nothing: whoever wrote it may have meant another. It says when the run was to
validate, and for how long to go on; a verdict by it is `unverified` at best, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlx.evidence.grammars import grammars
from rlx.evidence.log_grammar import Configured
from rlx.evidence.run_evidence import Announcement, Evidence
from rlx.model import Expectations, Link, NoiseSchedule

# A log may name any number of steps.
_MOST_STEPS = 1_000_000


def with_configuration(
    expectations: Expectations, evidence: Evidence, config: Mapping[str, Any]
) -> tuple[Expectations, Evidence]:
    """Add what the printed configuration says. Noise that it asks for counts as announced, and as nothing more.

    Both unchanged where there is no configuration, or none that a back-end knows.
    """
    said = next((found for each in grammars() if (found := each.configured(config)) is not None), None)
    if said is None:
        return expectations, evidence
    total = evidence.total_steps or expectations.total_steps or said.total_steps
    read = _read(expectations, said, _validations(said, total or evidence.last_step, min(evidence.metrics, default=0)))
    if expectations.noise is not None:
        return read, evidence
    return read, replace(evidence, announced=(*evidence.announced, *_announced(said, total)))


def _read(expectations: Expectations, said: Configured, validations: tuple[int, ...]) -> Expectations:
    return replace(
        expectations,
        total_steps=expectations.total_steps or said.total_steps,
        validation_steps=validations,
        last_step_validated=said.validates_every > 0,
        validation_samples=said.validation_samples,
        reports_probability_gap=said.reports_probability_gap,
        noise=_felt(expectations.noise) if said.reports_probability_gap else expectations.noise,
        is_read=True,
    )


def _felt(noise: NoiseSchedule | None) -> NoiseSchedule | None:
    """Hold noise that was promised to the gap between rollout and actor, too, since the log is to have it."""
    if noise is None or noise.promise is None:
        return noise
    links = tuple(link for link in Link if link is Link.FELT or link in noise.promise.links)
    return replace(noise, promise=replace(noise.promise, links=links))


def _validations(said: Configured, last: int, first: int) -> tuple[int, ...]:
    """Steps that the log must show as validated. One that begins later goes on from a checkpoint."""
    begins_anew = first <= 1
    steps = {0} if said.validates_first and begins_anew else set()
    if said.validates_every and 0 < last <= _MOST_STEPS:
        steps.update(range(said.validates_every, last + 1, said.validates_every), [last])
    return tuple(sorted(step for step in steps if begins_anew or step >= first))


def _announced(said: Configured, total: int | None) -> tuple[Announcement, ...]:
    """The noise as it is due from the second stage on: a fork's sync may serve the step after the one it names."""
    if said.sigmas is None or total is None:
        return ()
    sigma, _, stages = said.sigmas
    return (Announcement(-(-total // stages) + 2, sigma),)
