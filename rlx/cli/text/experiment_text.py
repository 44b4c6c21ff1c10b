"""Experiments in words: their design, their registered runs, and their power."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rlx.cli.text.table_text import fitted, paragraph, plain_table_lines
from rlx.compare.registered_design import Claim
from rlx.compare.sentences import moment_text
from rlx.model import Registration
from rlx.table import Column, Table, table_of_rows

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.api.experiments import RegisteredExperiment
    from rlx.api.planning import MissingRuns, Plans
    from rlx.api.power import ItemsPower, RecipePower, SeedsPower, Spread
    from rlx.compare.slot_assignment import RunSlot
    from rlx.runs.status.snapshots import Snapshot

_NAMED = 8
_AT_REGISTRATION = "RLX041"
"""A note that is worth reading before the test is fixed for good."""
_NO_SPREAD = (
    "seeds: their spread is unknown: no two finished seeds of one arm in the index have this metric, model, "
    "data, reward and evaluation\n  fix: --spread SD assumes one; two or three seeds of one arm measure it"
)


def design_lines(design: Registration) -> Iterator[str]:
    """Yield the question, and how it will be answered, one sentence per line."""
    yield design.question
    margin = f" at a margin of {design.margin:g}" if design.margin is not None else ""
    yield (
        f"{design.test} of {', '.join(design.treatments)} against {design.control or 'no control'}{margin}, "
        f"by {' and '.join(design.metrics)} {moment_text(design)}"
    )
    yield ", ".join(_design(design))


def _design(design: Registration) -> Iterator[str]:
    yield f"{len(design.seeds)} seeds per arm ({_span(design.seeds)})"
    if design.spare_seeds:
        yield f"spare: {_span(design.spare_seeds)}"
    if len(design.treatments) > 1:
        yield f"{design.several.capitalize()} over {len(design.treatments)} treatments"
    yield "runs with the same seed are paired" if design.is_paired else "unpaired"


def _span(seeds: Sequence[int]) -> str:
    return f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else ", ".join(map(str, seeds)) or "none"


def slots_text(slots: Iterable[tuple[int, str]]) -> str:
    """Return `aqn-s3, baseline-s3 and 4 more`."""
    names = [f"{arm}-s{seed}" for seed, arm in sorted(slots)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def launch_lines(plans: Plans) -> Iterator[str]:
    """Yield the question of these runs, their power, and which registered runs are not among them."""
    from rlx.model import finding_text

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
        yield f"{later}; rlx experiments {asked.name} lists what is missing"


def missing_lines(missing: MissingRuns) -> Iterator[str]:
    """Yield which registered runs exist and are not launched again, and which seed replaces which."""
    name, there = missing.registration.name, missing.there
    if missing.completes:
        return
    if missing.launches and there:
        runs = slots_text((slot.seed, slot.arm) for slot in there)
        yield f"{len(there)} of {len(missing.slots)} registered runs are there: {runs}; not launched again"
    elif there:
        arms = ", ".join(dict.fromkeys(slot.arm for slot in there))
        yield f"nothing is missing: all {len(there)} registered runs of {name} are there, of {arms}"
    yield from filter(None, map(_standing_line, missing.slots))
    if not missing.launches:
        asked = missing.registration
        compare = f" · result: rlx compare {asked.control} {' '.join(asked.treatments)}" if asked.control else ""
        yield f"all runs: rlx experiments {asked.name}{compare}"
        yield "--again launches them once more; all launches are listed, and the first one of a seed counts"


def _standing_line(slot: RunSlot) -> str:
    """Return what is special about a registered run; "" if nothing is."""
    from rlx.compare.slot_assignment import RunOutcome

    if slot.run is not None and slot.run.outcome is RunOutcome.FAILED:
        return f"{slot.arm}, seed {slot.seed}: {slot.run.run_id} counts as failed: {slot.run.cause}"
    return f"{slot.arm}: {slot.why}" if slot.why else ""


def experiment_parts(experiment: RegisteredExperiment, width: int) -> Group:
    """Return one experiment: how much of it has run, its design, a table of seeds and arms, and remarks on its runs."""
    from rich.console import Group

    design = experiment.registration
    slots = len(experiment.assigned.slots)
    counts = [f"{slots - len(experiment.missing)} of {slots} registered runs exist"]
    counts += [f"{len(experiment.failed)} without a valid result"] if experiment.failed else []
    when = f"registered {design.registered} by {design.by}" if design.registered else "not registered by a launch"
    title = paragraph(f"{design.name}: {', '.join(counts)}", width, "bold")
    about = [f"experiment {design.short}, {when}", *design_lines(design)]
    remarks = [f"  {line}" for line in _remarks(experiment)]
    parts = [paragraph(f"  {line}", width) for line in about]
    return Group(title, *parts, fitted(_table(experiment), width), *(paragraph(line, width) for line in remarks))


def _table(experiment: RegisteredExperiment) -> Table:
    from rlx.api.experiments import REGISTERED

    seeds = list(dict.fromkeys(slot.seed for slot in experiment.slots))
    cells = {(slot.seed, slot.arm): "; ".join(map(_run_text, slot.runs)) or "missing" for slot in experiment.slots}
    parts = {slot.seed: slot.part for slot in experiment.slots}
    arms = [arm.name for arm in experiment.registration.arms]
    named = [str(seed) if parts[seed] == REGISTERED else f"{seed} ({parts[seed]})" for seed in seeds]
    columns = [Column(arm, [cells.get((seed, arm), "–") for seed in seeds], flows=True) for arm in arms]
    return Table([Column("SEED", named), *columns])


def _run_text(run: Snapshot) -> str:
    from rlx.evidence.verdict import outlook

    return f"{run.state.value}, {outlook(run.verdict, run.state).word}{', removed' if run.removed else ''}"


def _remarks(experiment: RegisteredExperiment) -> Iterator[str]:
    if experiment.missing:
        yield f"missing: {slots_text((slot.seed, slot.arm) for slot in experiment.missing)}"
    if experiment.failed:
        yield f"without a valid result: {_ids(experiment.failed)}"
    if experiment.relaunched:
        yield f"launched more than once: {slots_text((slot.seed, slot.arm) for slot in experiment.relaunched)}"
    if experiment.added:
        yield f"added beyond the registered seeds: {_ids(experiment.added)}"
    yield from (f"{note.severity} {note.id} {note.message}" for note in experiment.notes)
    yield from (f"{slot.arm}: {slot.why}" for slot in experiment.assigned.slots if slot.why)
    yield from (
        f"not counted for a registered run: {each.run.run_id}: {each.why}" for each in experiment.assigned.passed_over
    )
    runs = [run for slot in experiment.slots for run in slot.runs]
    yield from (f"{run.removed.sentence}, and still counts" for run in runs if run.removed)
    if experiment.apart:
        yield f"{len(experiment.apart)} other runs of {experiment.registration.name} do not belong to this experiment"


def _ids(runs: Sequence[Snapshot]) -> str:
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return ", ".join(run.ref.run_id for run in runs[:_NAMED]) + more


def experiment_document(experiment: RegisteredExperiment) -> Mapping[str, Any]:
    """Return one experiment for --json, each run as in `status`."""
    from rlx.cli.text.run_document import row_document
    from rlx.model import to_jsonable

    runs = [{**row_document(run), "part": slot.part} for slot in experiment.slots for run in slot.runs]
    return {
        "digest": experiment.registration.digest,
        **to_jsonable(experiment.registration),
        "runs": runs,
        "missing": [{"arm": slot.arm, "seed": slot.seed} for slot in experiment.missing],
        "failed": [run.ref.run_id for run in experiment.failed],
        "relaunched": [{"arm": slot.arm, "seed": slot.seed} for slot in experiment.relaunched],
        "added": [run.ref.run_id for run in experiment.added],
        "notes": experiment.notes,
        "apart": [run.ref.run_id for run in experiment.apart],
        "standing": [_slot_document(slot) for slot in experiment.assigned.slots],
        "passed_over": [{"run_id": each.run.run_id, "why": each.why} for each in experiment.assigned.passed_over],
    }


def _slot_document(slot: RunSlot) -> Mapping[str, Any]:
    """Return the run that counts for a registered one, or the seed to launch for it."""
    run_id = slot.run.run_id if slot.run else None
    return {"arm": slot.arm, "seed": slot.seed, "run_id": run_id, "next_seed": slot.next_seed, "why": slot.why}


def power_text(power: RecipePower) -> str:
    """Return the answer of `rlx power`: items, spread, a table of seeds, and sentences on effect and equivalence."""
    return "\n".join(_lines(power))


def _lines(power: RecipePower) -> Iterator[str]:
    yield from _head(power)
    yield ""
    yield _items_line(power.items) if power.items else "items: their number is not known (data.val_rows)"
    if power.spread is None:
        yield _NO_SPREAD
        return
    yield f"seeds: {_spread_line(power.spread)}"
    if power.items and power.spread.observed is None and power.spread.sd < power.items.scatter:
        yield "  which is less than chance alone moves a run, unless the seeds agree on most items"
    yield from ["", *plain_table_lines(_seeds_table(power)), ""]
    if power.effect is not None:
        yield _needed_line(power)
    yield _equivalence_line(power, power.spread)


def _head(power: RecipePower) -> Iterator[str]:
    """Yield the power of the registered number of seeds, or of the first; then the design."""
    row = next((row for row in power.seeds if row.seeds == power.registered_seeds), next(iter(power.seeds), None))
    if power.spread is None or row is None:
        yield f"{power.recipe}: its power is unknown without the spread between seeds"
    else:
        yield f"{power.recipe}: with {row.seeds} seeds per arm, {_planned_words(power, row)}"
    yield f"  {_design_words(power)}"
    if power.registered_seeds is not None:
        yield f"  the recipe's experiment has {power.registered_seeds} seeds per arm"
    yield from (f"  set by option: {departure}" for departure in power.departures)


def _design_words(power: RecipePower) -> str:
    design, arms = power.design, power.treatments
    margin = f" at a margin of {design.margin:g} points" if design.margin is not None else ""
    corrected = f" ({design.several.value.capitalize()})" if arms > 1 else ""
    return f"{design.claim.value}{margin}, {arms} treatment{'s' if arms > 1 else ''}{corrected} against one control"


def _items_line(items: ItemsPower) -> str:
    moved = f"Chance alone moves one run by {items.scatter:.2g} points (standard deviation)"
    return (
        f"items: {items.items}, at {100 * items.share:.3g} % right. {moved};\n"
        f"  two checkpoints must differ by {items.visible:.2g} points to be distinguished with 80 % "
        "power, by less if their outputs per item are kept"
    )


def _spread_line(spread: Spread) -> str:
    if spread.observed is None:
        return f"a standard deviation of {spread.sd:.2g} points between them, assumed (--spread)"
    of = "".join(f"\n    {arm.arm}: {', '.join(arm.run_ids)}" for arm in spread.arms)
    return (
        f"a standard deviation of {spread.sd:.2g} points between them, the upper 80 % bound of the "
        f"{spread.observed:.2g} that earlier runs show\n  with {spread.df} degrees of freedom:{of}"
    )


def _seeds_table(power: RecipePower) -> Table:
    heads = [
        "seeds per arm",
        "detected with 80 % power" if power.design.claim is Claim.SUPERIORITY else "margin with 80 % power",
        "equivalent within",
    ]
    heads += [f"power for {_signed(power.effect)}"] if power.effect is not None else []
    heads += ["device hours"] if any(row.device_hours is not None for row in power.seeds) else []
    return table_of_rows(heads, [[str(row.seeds), *_cells(row)] for row in power.seeds], right=True)


def _cells(row: SeedsPower) -> list[str]:
    cells = [f"{row.visible:.2g} points", f"{row.equivalent_within:.2g} points"]
    cells += [f"{row.power:.0%}".replace("%", " %")] if row.power is not None else []
    return cells + ([f"{row.device_hours:.3g}"] if row.device_hours is not None else [])


def _signed(effect: float) -> str:
    return f"{effect:+g}" if effect else "0"


def _needed_line(power: RecipePower) -> str:
    effect = f"a true difference of {_signed(power.effect)} points" if power.effect else "no true difference"
    if power.seeds_needed is None:
        return f"{effect}: 1000 seeds per arm do not establish the claim with 80 % power"
    return f"{effect}: {power.seeds_needed} seeds per arm establish the claim with 80 % power"


def _equivalence_line(power: RecipePower, spread: Spread) -> str:
    row = next((each for each in power.seeds if each.seeds >= 5), power.seeds[-1])
    return (
        f"equivalence is expensive: {row.seeds} seeds per arm establish it with 80 % power only within "
        f"{row.equivalent_within:.2g} points, {row.equivalent_within / spread.sd:.2g} times the spread, and only if "
        "there is no difference at all"
    )


def planned_power_lines(power: RecipePower) -> Iterator[str]:
    """Yield the power of a planned experiment, the assumed spread and the cost."""
    if power.spread is None:
        yield "the spread between seeds and the number of items are unknown; rlx power RECIPE --spread SD assumes one"
        return
    row = power.seeds[0]
    yield f"{row.seeds} seeds per arm: {_planned_words(power, row)}"
    yield _planned_spread(power.spread, power.items)
    if power.items:
        yield f"by items alone two checkpoints must differ by {power.items.visible:.2g} points to be distinguished"
    if row.device_hours is not None:
        yield f"{row.device_hours:.3g} device hours in all"
    if power.design.claim is Claim.EQUIVALENCE:
        yield _equivalence_line(power, power.spread)


def _planned_words(found: RecipePower, row: SeedsPower) -> str:
    claim, margin = found.design.claim, found.design.margin
    if margin is None or row.power is None:
        return f"a true difference of {row.visible:.2g} points is detected with 80 % power"
    power = f"{row.power:.0%}".replace("%", " %")
    return (
        f"{claim.value} at a margin of {margin:g} points is established with {power} power if nothing differs, "
        f"at {row.visible:.2g} points with 80 %"
    )


def _planned_spread(spread: Spread, items: ItemsPower | None) -> str:
    if spread.observed is None:
        of = f" of {items.items} items" if items else ""
        return (
            f"by an assumed spread of {spread.sd:.2g} points between seeds, as much as chance alone moves one run{of}: "
            "there are no earlier seeds to measure it; rlx power RECIPE --spread SD assumes another"
        )
    runs = sum(len(arm.run_ids) for arm in spread.arms)
    of = ", ".join(f"{arm.name} {arm.arm}" for arm in spread.arms)
    return (
        f"by a spread of {spread.sd:.2g} points between seeds, the upper 80 % bound of the {spread.observed:.2g} "
        f"in {runs} earlier runs ({of})"
    )


def power_answer(power: RecipePower) -> dict[str, Any]:
    """Return the answer for --json, in points and device hours."""
    return {field.name: getattr(power, field.name) for field in fields(power)}
