"""Several records that claim to be the same run: where they differ, neither is believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.metrics import is_validation, metric_names, series
from rlx.evidence.reading.timeline import RESUMED, disagreements_of
from rlx.evidence.run_evidence import Disagreement, Evidence
from rlx.evidence.verdict import Charge, at_steps, counted, unverified

_SHOWN = 3


def conflicts(records: Mapping[str, Evidence]) -> tuple[Disagreement, ...]:
    """The values in which records of one run differ, by pair of records and step, validations first.

    `records` has the evidence by what people call the record.
    """
    found = [
        differing
        for (name, record), (other_name, other) in combinations(records.items(), 2)
        for key in metric_names(record) & metric_names(other)
        for differing in disagreements_of(key, series(record, key), series(other, key), (name, other_name))
    ]
    return tuple(sorted(found, key=_weight))


def overlaps(records: Mapping[str, Evidence]) -> tuple[Disagreement, ...]:
    """The conflicts among the attempts of one run, in their order.

    An attempt that says that it went on from a checkpoint repeats steps of the one before, and may come to other
    values there. One that does not is another record of the same steps.
    """
    names = list(records)
    resumed = {name for name, record in records.items() if _is_resumed(record)}
    return tuple(found for found in conflicts(records) if max(found.sources, key=names.index) not in resumed)


def _is_resumed(record: Evidence) -> bool:
    return any(restart.reason.startswith(RESUMED) for restart in record.restarts)


def _weight(found: Disagreement) -> tuple[bool, tuple[str, str], str, int]:
    return not is_validation(found.key), found.sources, found.key, found.step


def check(given: CheckInput) -> Iterator[Charge]:
    """One finding for each pair of records, with both values of the first steps."""
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
