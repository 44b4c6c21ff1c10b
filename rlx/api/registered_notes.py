"""Find what a reader of a registered answer should know: runs that are not here, launched apart, or replaced.

What leaves no trace cannot be found: docs/experiments.md lists it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.compare.run_slots import RunSlots
    from rlx.model import Registration
    from rlx.runs import Index
    from rlx.runs.status.snapshots import Snapshot

_NAMED = 5
_HOUR, _DAY = 3600.0, 86400.0
_SHORTEST_S = 60.0


def registered_notes(
    index: Index, asked: Registration, found: RunSlots, rows: Mapping[str, Snapshot]
) -> tuple[Finding, ...]:
    """Return the findings about the runs of an experiment, by id; `rows`: all of its runs that are known here."""
    standing = [rows[run.run_id] for run in found.standing.values()]
    return (
        *_gaps(index, [*rows.values()]),
        *_launched_before(asked, standing),
        *_launched_apart(standing),
        *_asked_otherwise(index, asked),
        *_replaced(asked, found, rows),
    )


def _gaps(index: Index, rows: Sequence[Snapshot]) -> Iterator[Finding]:
    """Name launches whose runs have no neighbour: each has its position in its manifest."""
    known, unknown = _positions(index, rows)
    for launch, seen in sorted(known.items()):
        missing = sorted({*range(max(seen))} - seen)
        if len(missing) > unknown[launch]:
            places = ", ".join(map(str, missing[:_NAMED])) + (" and more" if len(missing) > _NAMED else "")
            yield Finding(
                "RLX934",
                Severity.WARNING,
                f"launch {launch} has {len(seen)} runs here, the last at position {max(seen)}, and none at {places}: "
                f"{len(missing) - unknown[launch]} of its runs are not known here",
                "were they deleted, or are they on a host that this machine does not know?",
            )


def _positions(index: Index, rows: Sequence[Snapshot]) -> tuple[dict[str, set[int]], Mapping[str, int]]:
    """Return the positions by launch that manifests and tombstones have, and how many runs have neither."""
    from rlx.runs.copies.mirror import kept
    from rlx.runs.manifest import read_manifest

    copies = kept(index, [row.ref for row in rows])
    known: dict[str, set[int]] = defaultdict(set)
    unknown: dict[str, int] = defaultdict(int)
    for row in rows:
        manifest = read_manifest(copies[row.ref.run_id].run_dir)
        if manifest is not None:
            known[row.ref.launch_id].add(manifest.position)
        elif row.removed is not None and row.removed.manifest:
            known[row.ref.launch_id].add(row.removed.position)
        else:
            unknown[row.ref.launch_id] += 1
    return known, unknown


def _launched_before(asked: Registration, standing: Sequence[Snapshot]) -> Iterator[Finding]:
    from rlx.runs.run import utc_text

    early = [row for row in standing if asked.registered and utc_text(row.ref.created) < asked.registered]
    if early:
        yield Finding(
            "RLX935",
            Severity.WARNING,
            f"launched before the experiment was registered ({asked.registered}): {_named(early)}",
            "a question that is asked after its runs is exploratory",
        )


def _launched_apart(standing: Sequence[Snapshot]) -> Iterator[Finding]:
    """Name the runs of later launches, which somebody may have started knowing the first values.

    Within the first minute no value was known.
    """
    first = min(standing, key=lambda row: row.ref.created, default=None)
    later = [row for row in standing if first and row.ref.launch_id != first.ref.launch_id]
    last = max((row.ref.created for row in later), default=0) - first.ref.created if first else 0
    if last >= _SHORTEST_S:
        yield Finding(
            "RLX935",
            Severity.NOTE,
            f"launched up to {_span(last)} after the first run: {_named(later)}",
            "the values of earlier runs may have been known",
        )


def _asked_otherwise(index: Index, asked: Registration) -> Iterator[Finding]:
    from rlx.runs.index.registrations import same_question

    others = same_question(index.home, asked)
    if others:
        words = "; ".join(
            f"{one.short} of {one.name} on {one.registered[:10]}, seeds {', '.join(map(str, one.seeds))}"
            for one in others[:_NAMED]
        )
        yield Finding(
            "RLX936",
            Severity.WARNING,
            f"the same question was registered {len(others) + 1} times here, also as {words}",
            "say so beside the answer: who asks several times finds an answer in one of them",
        )


def _replaced(asked: Registration, found: RunSlots, rows: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Name runs whose place another one took, since their machine ended them: whoever did that saw their values.

    A run of a seed that is not registered had no place.
    """
    from rlx.compare.run_slots import Outcome

    seeds = {*asked.seeds, *asked.spare_seeds}
    others = [each.run for each in found.passed_over]
    lost = [run for run in others if run.outcome is Outcome.MACHINE and run.seed in seeds]
    for run in lost:
        row = rows[run.run_id]
        of = f" of {row.steps_total}" if row.steps_total else ""
        seen = f", its last validation {row.validation[1]:.4g} at step {row.validation[0]}" if row.validation else ""
        yield Finding(
            "RLX937",
            Severity.NOTE,
            f"seed {run.seed} of {run.arm} ({run.run_id}) was {row.state} at step {row.steps_done}{of}{seen}, and its "
            "place was given up as its machine's fault",
            "whoever ends a run so can choose by its values: say what ended it",
        )


def _named(rows: Sequence[Snapshot]) -> str:
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(row.ref.run_id for row in rows[:_NAMED]) + more


def _span(seconds: float) -> str:
    if seconds >= _DAY:
        return f"{seconds / _DAY:.1f} days"
    return f"{seconds / _HOUR:.1f} hours" if seconds >= _HOUR else f"{seconds / 60:.0f} minutes"
