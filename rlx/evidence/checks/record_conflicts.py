"""Report records of one run that differ: several records of the run, its metrics, and the form of its log.

Where they differ, neither is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.metrics import forms, is_validation, metric_names, series
from rlx.evidence.reading.timeline import RESUMED, WENT_BACK, disagreements_of
from rlx.evidence.run_evidence import Disagreement, Evidence
from rlx.evidence.verdict import CheckFinding, at_steps, counted, incomplete, unverified

_SHOWN = 3
_OWN_FILE = "give each run its own log"


def conflicts(records: Mapping[str, Evidence]) -> tuple[Disagreement, ...]:
    """Return the values in which records of one run differ, by pair of records and step, validations first.

    `records` has the evidence by the name of the record.
    """
    found = [
        differing
        for (name, record), (other_name, other) in combinations(records.items(), 2)
        for key in metric_names(record) & metric_names(other)
        for differing in disagreements_of(key, series(record, key), series(other, key), (name, other_name))
    ]
    return tuple(sorted(found, key=lambda each: (not is_validation(each.key), each.sources, each.key, each.step)))


def overlaps(records: Mapping[str, Evidence]) -> tuple[Disagreement, ...]:
    """Return the conflicts among the attempts of one run, in their order.

    An attempt that states that it continued from a checkpoint repeats steps of the one before, and may have other
    values there. One that does not is another record of the same steps.
    """
    names = list(records)
    resumed = {name for name, record in records.items() if _is_resumed(record)}
    return tuple(found for found in conflicts(records) if max(found.sources, key=names.index) not in resumed)


def _is_resumed(record: Evidence) -> bool:
    return any(restart.reason.startswith(RESUMED) for restart in record.restarts)


def check_conflicts(given: CheckInput) -> Iterator[CheckFinding]:
    """Report each pair of differing records, with both values of the first steps."""
    found = given.evidence.conflicts
    for sources in dict.fromkeys(each.sources for each in found):
        own = [each for each in found if each.sources == sources]
        first = [each for each in own if each.key == own[0].key]
        steps = f" at {at_steps(each.step for each in first)}, the last" if len(first) > _SHOWN else ""
        yield unverified(
            "RLX715",
            f"conflicting records: {sources[0]} and {sources[1]} both claim to be this run and differ in "
            f"{counted(len(own), 'value')}; {first[0].key}{steps}: {'; '.join(map(_both, first[-_SHOWN:]))}",
            "find out which one is right, and remove the run directory of the other (rlx status -v)",
            first[0].step,
        )


def _both(found: Disagreement) -> str:
    return f"{found.values[0]:.4g} and {found.values[1]:.4g} at step {found.step}"


def check_metrics(given: CheckInput) -> Iterator[CheckFinding]:
    evidence = given.evidence
    if not evidence.disagreements:
        return
    first = evidence.disagreements[0]
    (one, other), (value, other_value) = first.sources, first.values
    yield unverified(
        "RLX709",
        f"{counted(len(evidence.disagreements), 'contradiction')} in the metrics; first: "
        f"{first.key} at step {first.step} is {value:g} in {one} and {other_value:g} in {other}",
        "check whether two runs wrote to one file",
        first.step,
    )


def check_form(given: CheckInput) -> Iterator[CheckFinding]:
    evidence = given.evidence
    yield from _gaps(evidence)
    yield from _two_runs(evidence)
    yield from _torn(evidence)
    if evidence.has_hole:
        yield unverified(
            "RLX722",
            "the log has a hole of zero bytes: its content there is lost",
            "it was emptied while the run wrote to it, or the machine crashed: append with tee -a, never truncate",
        )


def _gaps(evidence: Evidence) -> Iterator[CheckFinding]:
    every = evidence.totals.logged_every or 1
    missing = sorted(set(range(every, evidence.last_step + 1, every)).difference(evidence.metrics))
    if not missing:
        return
    first = next((step for step in evidence.metrics if step > 0), 0)
    if missing[-1] < first and 0 not in evidence.metrics:
        why = "the steps before it are in another log" if _is_resumed(evidence) else "no line says that it was resumed"
        message = f"the log begins at step {first}, and {why}: no metrics at {at_steps(missing)}"
        yield incomplete(
            "RLX704", message, "a restart may have overwritten it: import all logs of the run; tee needs -a", 1
        )
    else:
        yield incomplete("RLX704", f"no metrics at {at_steps(missing)}", "is a part of the log lost?", missing[0])


def _torn(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report metrics of the last step that begin like those of another step and stop early.

    This works without the end-of-line, too, which other processes may still have written.
    """
    others, last = forms(evidence)
    longer = [form for form in others if form[: len(last)] == last]
    if not last or last in others or not longer or all(map(is_validation, last)):
        return
    lost = longer[-1][len(last) :]
    if not all(map(is_validation, lost)):
        yield incomplete(
            "RLX721",
            f"the log ends within the metrics of step {evidence.last_step}: they end with {last[-1]}, whose number "
            f"may be truncated, and lack {counted(len(lost), 'metric')} of other steps",
            "copy the whole file after the run, and check whether the disk was full",
            evidence.last_step,
        )


def _two_runs(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report two runs in one log: an attempt has its own log, and one that continued from a checkpoint says so."""
    back = [restart for restart in evidence.restarts if WENT_BACK in restart.reason]
    if back:
        yield unverified(
            "RLX720",
            f"one log holds two runs: {back[0].reason}, and no line says that it was resumed; the later one counts",
            _OWN_FILE,
            back[0].step,
        )
