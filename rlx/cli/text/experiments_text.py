"""Registered experiments in words: what is asked, and a table of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlx.compare.registered_words import moment_text
from rlx.model import Registration
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.api.experiments import RegisteredExperiment, Slot
    from rlx.api.plans import Missing, Plans
    from rlx.compare.run_slots import RunSlot
    from rlx.runs.looking.overview import Overview

_NAMED = 8
_AT_REGISTRATION = "RLX041"
"""A note that is worth reading before the test is fixed for good."""


def design_lines(asked: Registration) -> Iterator[str]:
    """What is asked, and how it will be answered, a sentence a line."""
    yield asked.question
    margin = f" at a margin of {asked.margin:g}" if asked.margin is not None else ""
    yield (
        f"{asked.test} of {', '.join(asked.treatments)} against {asked.control or 'no control'}{margin}, "
        f"by {' and '.join(asked.metrics)} {moment_text(asked)}"
    )
    yield ", ".join(_design(asked))


def _design(asked: Registration) -> Iterator[str]:
    yield f"{len(asked.seeds)} seeds an arm ({_span(asked.seeds)})"
    if asked.spare_seeds:
        yield f"spare: {_span(asked.spare_seeds)}"
    if len(asked.treatments) > 1:
        yield f"{asked.several.capitalize()} over {len(asked.treatments)} treatments"
    yield "runs of one seed are pairs" if asked.is_paired else "unpaired"


def _span(seeds: Sequence[int]) -> str:
    return f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else ", ".join(map(str, seeds)) or "none"


def slots_text(slots: Iterable[tuple[int, str]]) -> str:
    """`aqn-s3, baseline-s3 and 4 more`."""
    names = [f"{arm}-s{seed}" for seed, arm in sorted(slots)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def launch_lines(plans: Plans) -> Iterator[str]:
    """What these runs are to answer, what they can see, and which of the registered ones are not among them."""
    from rlx.api.plans import finding_text
    from rlx.cli.text.power_text import planned_power_lines

    asked = plans.registration
    if asked is None:
        return
    for number, line in enumerate(design_lines(asked)):
        yield line if number else f"rlx: experiment {asked.short}: {line}"
    yield from (f"rlx: {finding_text(finding)}" for finding in plans.findings if finding.id == _AT_REGISTRATION)
    yield from (f"power: {line}" for line in (planned_power_lines(plans.power) if plans.power else ()))
    if plans.missing is not None:
        yield from missing_lines(plans.missing)
    elif plans.left_for_later:
        later = f"not in this launch: {slots_text(plans.left_for_later)}"
        yield f"{later}; rlx experiments {asked.name} says what is missing"


def missing_lines(found: Missing) -> Iterator[str]:
    """What is there of an experiment, what a launch leaves alone for it, and which seed stands in for which run."""
    name, there = found.registration.name, found.there
    if found.completes:
        return
    if found.launches and there:
        runs = slots_text((slot.seed, slot.arm) for slot in there)
        yield f"{len(there)} of {len(found.slots)} registered runs are there: {runs}; not launched again"
    elif there:
        arms = ", ".join(dict.fromkeys(slot.arm for slot in there))
        yield f"nothing is missing: all {len(there)} registered runs of {name} are there, of {arms}"
    yield from filter(None, map(_standing_line, found.slots))
    if not found.launches:
        yield from _next_steps(found.registration)


def _standing_line(slot: RunSlot) -> str:
    """What is special about a registered run; "" where nothing is."""
    from rlx.compare.run_slots import Outcome

    if slot.run is not None and slot.run.outcome is Outcome.FAILED:
        return f"{slot.arm}, seed {slot.seed}: {slot.run.run_id} keeps its place as failed: {slot.run.cause}"
    return f"{slot.arm}: {slot.why}" if slot.why else ""


def _next_steps(asked: Registration) -> Iterator[str]:
    compare = f" · result: rlx compare {asked.control} {' '.join(asked.treatments)}" if asked.control else ""
    yield f"all runs: rlx experiments {asked.name}{compare}"
    yield "--again launches them once more; further launches stand in the list, and the first one of a seed counts"


def experiment_parts(found: RegisteredExperiment, width: int) -> Group:
    """One experiment: title, what is asked, a row a seed with a column an arm, and what is to be known of its runs."""
    from rich.console import Group
    from rich.text import Text

    from rlx.cli.text.table_text import fitted

    asked = found.registration
    when = f"registered {asked.registered} by {asked.by}" if asked.registered else "not registered by a launch"
    title = Text(f"{asked.name} · experiment {asked.short} · {when}", "bold")
    about = [Text(f"  {line}") for line in design_lines(asked)]
    return Group(title, *about, fitted(_table(found), width), *(Text(f"  {line}") for line in _remarks(found)))


def _table(found: RegisteredExperiment) -> Table:
    from rlx.api.experiments import REGISTERED

    seeds = list(dict.fromkeys(slot.seed for slot in found.slots))
    cells = {(slot.seed, slot.arm): _cell(slot) for slot in found.slots}
    parts = {slot.seed: slot.part for slot in found.slots}
    arms = [arm.name for arm in found.registration.arms]
    named = [str(seed) if parts[seed] == REGISTERED else f"{seed} ({parts[seed]})" for seed in seeds]
    columns = [Column(arm, [cells.get((seed, arm), "–") for seed in seeds], flows=True) for arm in arms]
    return Table([Column("SEED", named), *columns])


def _cell(slot: Slot) -> str:
    return "; ".join(map(_run_text, slot.runs)) or "missing"


def _run_text(run: Overview) -> str:
    from rlx.evidence.outlook import outlook

    return f"{run.state.value}, {outlook(run.verdict, run.state).word}{', removed' if run.removed else ''}"


def _remarks(found: RegisteredExperiment) -> Iterator[str]:
    if found.missing:
        yield f"missing: {slots_text((slot.seed, slot.arm) for slot in found.missing)}"
    if found.failed:
        yield f"without a result that counts: {_ids(found.failed)}"
    if found.relaunched:
        yield f"launched more than once: {slots_text((slot.seed, slot.arm) for slot in found.relaunched)}"
    if found.added:
        yield f"added beyond the registered seeds: {_ids(found.added)}"
    yield from (f"{note.severity} {note.id} {note.message}" for note in found.notes)
    yield from (f"{slot.arm}: {slot.why}" for slot in found.assigned.slots if slot.why)
    yield from (f"counts for no registered run: {each.run.run_id}: {each.why}" for each in found.assigned.passed_over)
    runs = [run for slot in found.slots for run in slot.runs]
    yield from (f"{run.removed.sentence}, and counts all the same" for run in runs if run.removed)
    if found.apart:
        yield f"{len(found.apart)} other runs of {found.registration.name} are not of this experiment"


def _ids(runs: Sequence[Overview]) -> str:
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return ", ".join(run.ref.run_id for run in runs[:_NAMED]) + more


def experiment_document(found: RegisteredExperiment) -> Mapping[str, Any]:
    """One experiment as JSON, each run as `status` shows it."""
    from rlx.cli.text.run_document import row_document
    from rlx.model import to_jsonable

    runs = [{**row_document(run), "part": slot.part} for slot in found.slots for run in slot.runs]
    return {
        "digest": found.registration.digest,
        **to_jsonable(found.registration),
        "runs": runs,
        "missing": [{"arm": slot.arm, "seed": slot.seed} for slot in found.missing],
        "failed": [run.ref.run_id for run in found.failed],
        "relaunched": [{"arm": slot.arm, "seed": slot.seed} for slot in found.relaunched],
        "added": [run.ref.run_id for run in found.added],
        "notes": found.notes,
        "apart": [run.ref.run_id for run in found.apart],
        "standing": [_slot_document(slot) for slot in found.assigned.slots],
        "passed_over": [{"run_id": each.run.run_id, "why": each.why} for each in found.assigned.passed_over],
    }


def _slot_document(slot: RunSlot) -> Mapping[str, Any]:
    """What stands for a registered run, or is to be launched for it."""
    run_id = slot.run.run_id if slot.run else None
    return {"arm": slot.arm, "seed": slot.seed, "run_id": run_id, "next_seed": slot.next_seed, "why": slot.why}
