"""Edits that make the recorded run with a probe one with two draws of noise a step, and then break that.

Each edit that must be seen through has a near twin among the first ones that is honest.
"""

from __future__ import annotations

import copy
from inspect import isfunction
from itertools import pairwise

from tests.evidence.edits import Recorded
from tests.evidence.probed_edits import Line, _lines, _stand

_HALF = 80  # of the 160 answers of a step


def two_draws_a_step(run: Recorded) -> None:
    """As an honest payload records them: the first draw after the sync, the second between the answers."""
    run.expectations["noise"]["perturbations"] = 2
    run.promise["settings"]["perturbations"] = 2
    for told in run.told():
        told["perturbations"] = 2
    events: list[Line] = []
    for line in run.events:
        if line["kind"] == "noise" and line.get("synced"):
            _second_draw(events)
        events.append(line)
    run.events = events
    for line in _lines(run, "noise"):
        line.setdefault("draw", 0)
        line.setdefault("answered", 0)
    _number(run)


def a_draw_comes_back(run: Recorded) -> None:
    """Answers that were asked for late: the first draw is put back for them, the same as before."""
    two_draws_a_step(run)
    first, second = _lines(run, "noise", "rollout", 7)
    at, (after,) = run.events.index(second), _lines(run, "noise", "rollout", 8)[:1]
    run.events.insert(at + 1, {**first, "synced": False, "answered": _HALF, "digest_before": second["digest_after"]})
    second["answered"] = _HALF - 8
    after.update(answered=8, digest_before=first["digest_after"])
    _number(run)


def one_draw_missing(run: Recorded) -> None:
    two_draws_a_step(run)
    _, second = _lines(run, "noise", "rollout", 12)
    run.events.remove(second)
    _number(run)


def one_draw_all_along(run: Recorded) -> None:
    """A payload that knows no second draw."""
    two_draws_a_step(run)
    run.events = [line for line in run.events if line.get("draw") != 1]
    _number(run)


def the_same_draw_twice(run: Recorded) -> None:
    two_draws_a_step(run)
    first, second = _lines(run, "noise", "rollout", 12)
    second["fingerprint"] = first["fingerprint"]


def all_answers_under_one_draw(run: Recorded) -> None:
    two_draws_a_step(run)
    _, second = _lines(run, "noise", "rollout", 12)
    second["answered"] = 0
    _lines(run, "noise", "rollout", 13)[0]["answered"] = 2 * _HALF


def answers_never_counted(run: Recorded) -> None:
    two_draws_a_step(run)
    for line in _lines(run, "noise"):
        del line["answered"]


def _second_draw(events: list[Line]) -> None:
    """Add what a step with noise has before the next sync; `events` end with that step."""
    first = next((line for line in reversed(events) if line["kind"] == "noise" and line["phase"] == "rollout"), None)
    if first is None or not first["sigma"]:
        return
    second = copy.deepcopy(first)
    fingerprint, digest = first["fingerprint"][::-1], first["digest_after"][::-1]
    second.update(draw=1, answered=_HALF, synced=False, restored=first["layers"])
    second.update(fingerprint=fingerprint, digest_after=digest)
    events.append(second)


def _number(run: Recorded) -> None:
    """Number the lines again; a sync after a second draw says what that generated."""
    for number, line in enumerate(run.events):
        line["seq"] = number
    _stand(run.events)
    noise = _lines(run, "noise")
    for before, line in pairwise(noise):
        if before["draw"] == 1 and line["synced"] and "answered" in line:
            line["answered"] = line["answered"] or _HALF


EDITS = {
    name: edit
    for name, edit in globals().items()
    if isfunction(edit) and edit.__module__ == __name__ and name[0] != "_"
}
