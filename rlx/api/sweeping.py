"""Plan a sweep: the runs of a recipe over several hosts, each of which takes whole blocks.

A block has each arm once, with one seed. Its runs share a host, so that no difference between hosts can pass for one
between arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from rlx.api.dealing import Deal, deal
from rlx.errors import ExitCode, RlxError, UsageError
from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.api.plans import Missing, Plans
    from rlx.api.sweep_hosts import LeftOut, SweepHost
    from rlx.api.target import Target
    from rlx.recipe import RecipeFile, ResolvedRecipe
    from rlx.runs import RunRef

_Places = Mapping[int, str]


def plan_sweep(
    recipe: str | RecipeFile,
    hosts: str | Sequence[str],
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    container: str | None = None,
    sets: Sequence[str] = (),
    *,
    devices: str | None = None,
    trust: bool = False,
    send: Sequence[str] = (),
    strict: bool = False,
    only_missing: bool = False,
) -> Plans:
    """Plan every arm with every seed, and deal the blocks to these hosts by what is free there and what fits.

    A host that does not answer or that the preflight refuses, with `strict` for a warning, is left out and named in
    `findings` (RLX043). `only_missing`: of a registered experiment what is not there yet. The other words are those of
    `rlx.plan`. A launch that was interrupted keeps its deal. Raises UsageError, and RlxError (exit 4, 5) if no host is
    left.
    """
    from rlx.api.planning import named_arms
    from rlx.api.recipes import recipe_file
    from rlx.api.target import sweep_targets

    targets = sweep_targets(hosts, container, devices, consents=trust)
    file = recipe_file(recipe, sets)
    missing = _missing(file, named_arms(file, arms)) if only_missing and not seeds else None
    resolved = _resolved(file, arms, seeds, missing, send)
    return replace(_planned(file, targets, resolved, strict, missing, container), missing=missing)


def _missing(file: RecipeFile, arms: Sequence[str]) -> Missing | None:
    from rlx.api.missing_runs import missing_runs

    return missing_runs(file, arms)


def _resolved(
    file: RecipeFile, arms: Sequence[str], seeds: Sequence[int], missing: Missing | None, send: Sequence[str]
) -> list[ResolvedRecipe]:
    from rlx.api.planning import block_slots, named_arms

    slots = block_slots(file, named_arms(file, arms), seeds or None)
    if missing is not None:
        slots = ((arm, seed) for seed, arm in missing.launches)
    return [replace(file.resolve(arm, seed), sendable=tuple(send)) for arm, seed in slots]


def _planned(
    file: RecipeFile,
    targets: Sequence[Target],
    resolved: Sequence[ResolvedRecipe],
    strict: bool,
    missing: Missing | None,
    container: str | None,
) -> Plans:
    from rlx.api.plans import Plans
    from rlx.api.sweep_hosts import look_at_hosts

    names = tuple(target.host.name for target in targets)
    asked = _digest(file, targets, resolved)
    if not resolved:
        return Plans((), deal=Deal(asked, names, ()))
    blocks = _blocks(resolved)
    begun = _begun(asked)
    # A place that was chosen stays the block's, also where nothing is free there now.
    settled = {ref.seed: ref.host for ref in begun} or _earlier(missing)
    found, left_out = look_at_hosts(targets, resolved, next(iter(blocks.values())), strict)
    if not found:
        raise _nobody(left_out)
    findings = (*map(_told, left_out), *_of_blocks(settled, found, blocks, begun))
    if not begun:
        settled = {seed: host for seed, host in settled.items() if _is_there(host, found)}
    sizes = {seed: len(block) for seed, block in blocks.items()}
    placed = deal(sizes, [one.room for one in found], settled)
    if not placed:
        raise _nothing(findings)
    by_name = {one.name: one for one in found}
    drafts = chain.from_iterable(by_name[host].drafts(blocks[seed]) for seed, host in placed.items())
    looks = (look for one in found if one.name in placed.values() for look in one.looks)
    dealt = Deal(
        asked,
        names,
        tuple(one.room for one in found),
        findings,
        container,
        targets[0].devices,
        {one.arm: one.watched.model_dump(mode="json") for one in resolved if one.watched},
        is_new=not begun,
    )
    return Plans(tuple(drafts), tuple(looks), deal=dealt)


def _digest(file: RecipeFile, targets: Sequence[Target], resolved: Sequence[ResolvedRecipe]) -> str:
    """Of what was asked, and not of where it goes: typed again it is the same launch, whatever is free then."""
    import hashlib
    import json

    where = [[target.host.name, target.site.container, target.devices] for target in targets]
    what = [[one.arm, one.recipe.seed, one.document] for one in resolved]
    return hashlib.sha256(json.dumps(["sweep", file.name, where, what], sort_keys=True).encode()).hexdigest()


def _blocks(resolved: Sequence[ResolvedRecipe]) -> dict[int, list[ResolvedRecipe]]:
    blocks: dict[int, list[ResolvedRecipe]] = {}
    for one in resolved:
        blocks.setdefault(one.recipe.seed, []).append(one)
    return blocks


def _begun(asked: str) -> tuple[RunRef, ...]:
    """The runs of the launch that asked for the same and came to no end."""
    from rlx.api.selection import open_index
    from rlx.runs.launching.launch import unfinished

    pending = unfinished(open_index(), asked)
    return pending.runs if pending else ()


def _earlier(missing: Missing | None) -> dict[int, str]:
    """Where the other arms of the missing runs' blocks are."""
    if missing is None or missing.completes:
        return {}
    from rlx.api.selection import open_index

    refs = {ref.run_id: ref for ref in open_index().known_runs()}
    runs = (slot.run for slot in missing.slots if slot.run is not None)
    return {run.seed: refs[run.run_id].host for run in runs if run.run_id in refs}


def _is_there(host: str, found: Sequence[SweepHost]) -> bool:
    return any(one.name == host for one in found)


def _of_blocks(
    settled: _Places, found: Sequence[SweepHost], blocks: Mapping[int, object], begun: Sequence[RunRef]
) -> list[Finding]:
    """What is to be said of blocks whose host takes no part, unless all their runs are there."""
    apart = [(seed, host) for seed, host in settled.items() if seed in blocks and not _is_there(host, found)]
    if not begun:
        return [_split(seed, host) for seed, host in apart]
    away = _not_arrived(begun) if apart else set()
    return [_stays(seed, host) for seed, host in apart if seed in away]


def _not_arrived(begun: Sequence[RunRef]) -> set[int]:
    """The seeds of runs of which their hosts have not said that they are there."""
    from rlx.api.selection import open_index

    there = {ref.run_id for ref in open_index().runs()}
    return {ref.seed for ref in begun if ref.run_id not in there}


def _told(left_out: LeftOut) -> Finding:
    message = f"{left_out.host} is left out, the others take its share: {left_out.why}"
    return Finding("RLX043", Severity.WARNING, message, f"rlx doctor {left_out.host} shows all that is known of it")


def _split(seed: int, host: str) -> Finding:
    message = f"the other arms of seed {seed} ran on {host}, which takes no part: arms would differ by host"
    return Finding("RLX044", Severity.WARNING, message, f"add {host} to --host, or --again --seed {seed} for all arms")


def _stays(seed: int, host: str) -> Finding:
    message = f"the runs of seed {seed} went to {host} before the launch was interrupted, and may have started there"
    return Finding("RLX045", Severity.WARNING, message, f"the same launch again once {host} can be used")


def _nothing(findings: Sequence[Finding]) -> RlxError:
    """Every run went to a host that takes no part now."""
    text = "\n".join(f"{finding.id} {finding.message}" for finding in findings)
    return RlxError(f"nothing can be launched now:\n{text}", "the same launch again, later", ExitCode.UNREACHABLE)


def _nobody(left_out: Sequence[LeftOut]) -> RlxError:
    """What all hosts refuse is the recipe's; nobody answers is no refusal."""
    from rlx.api.plans import refusal_code
    from rlx.model import finding_text

    refused = [one.findings for one in left_out if one.findings]
    common = [finding for finding in refused[0] if all(finding in one for one in refused)] if refused else []
    if len(refused) == len(left_out) and common:
        text, code = "\n".join(map(finding_text, common)), refusal_code(common)
        whole = "rlx plan RECIPE shows the whole plan"
        return UsageError(text, whole) if code is ExitCode.USAGE else RlxError(text, whole, code)
    text = "\n".join(f"{one.host}: {one.why}" for one in left_out)
    code = ExitCode.PREFLIGHT_FAILED if refused else ExitCode.UNREACHABLE
    return RlxError(f"no host is left for the sweep:\n{text}", "rlx doctor HOST shows all that is known of one", code)
