"""Plan a sweep: the runs of a recipe over several hosts, each of which takes whole blocks.

A block has each arm once, with one seed. Its runs share a host, so that no difference between hosts can pass for one
between arms.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.api.planning import Distribution, HostCapacity, distribute
from rlx.errors import ExitCode, RlxError, UsageError
from rlx.local_files import bounded, open_regular, parse_json
from rlx.model import Finding, LaunchPlan, Severity, from_jsonable, to_jsonable

if TYPE_CHECKING:
    from rlx.api.hosts import Target
    from rlx.api.planning import MissingRuns, PlannedRun, Plans
    from rlx.model import Installation
    from rlx.planning.host_query import QueriedHost
    from rlx.recipe import RecipeFile, ResolvedRecipe
    from rlx.runs import Leases, RunRef

_Places = Mapping[int, str]
_MOST_BYTES = 512 << 20


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
    """Plan every arm with every seed, and distribute the blocks to these hosts by what is free and what fits.

    A host that does not answer or that the preflight refuses, with `strict` for a warning, is left out and named in
    `findings` (RLX043). `only_missing`: of a registered experiment what is not there yet. The other words are those of
    `rlx.plan`. A launch that was interrupted keeps its distribution. Raises UsageError, and RlxError (exit 4, 5) if no
    host is left.
    """
    from rlx.api.hosts import sweep_targets
    from rlx.api.planning import missing_runs, named_arms
    from rlx.api.recipes import recipe_file

    targets = sweep_targets(hosts, container, devices, consents=trust)
    file = recipe_file(recipe, sets)
    missing = missing_runs(file, named_arms(file, arms)) if only_missing and not seeds else None
    resolved = _resolved(file, arms, seeds, missing, send)
    return replace(_planned(file, targets, resolved, strict, missing, container), missing=missing)


def _resolved(
    file: RecipeFile, arms: Sequence[str], seeds: Sequence[int], missing: MissingRuns | None, send: Sequence[str]
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
    missing: MissingRuns | None,
    container: str | None,
) -> Plans:
    from rlx.api.planning import Plans

    names = tuple(target.host.name for target in targets)
    asked = _digest(file, targets, resolved)
    if not resolved:
        return Plans((), distribution=Distribution(asked, names, ()))
    blocks = _blocks(resolved)
    begun = _begun(asked)
    # A place that was chosen stays the block's, also where nothing is free there now.
    settled = {ref.seed: ref.host for ref in begun} or _earlier(missing)
    found, left_out = look_at_hosts(targets, resolved, next(iter(blocks.values())), strict)
    if not found:
        raise _no_host_left(left_out)
    findings = (*map(_told, left_out), *_of_blocks(settled, found, blocks, begun))
    if not begun:
        settled = {seed: host for seed, host in settled.items() if _is_there(host, found)}
    sizes = {seed: len(block) for seed, block in blocks.items()}
    placed = distribute(sizes, [one.capacity for one in found], settled)
    if not placed:
        text = "\n".join(f"{finding.id} {finding.message}" for finding in findings)
        raise RlxError(f"nothing can be launched now:\n{text}", "the same launch again, later", ExitCode.UNREACHABLE)
    by_name = {one.name: one for one in found}
    planned_runs = chain.from_iterable(by_name[host].planned_runs(blocks[seed]) for seed, host in placed.items())
    looks = (look for one in found if one.name in placed.values() for look in one.looks)
    distribution = Distribution(
        asked,
        names,
        tuple(one.capacity for one in found),
        findings,
        container,
        targets[0].devices,
        {one.arm: one.watched.model_dump(mode="json") for one in resolved if one.watched},
        is_new=not begun,
    )
    return Plans(tuple(planned_runs), tuple(looks), distribution=distribution)


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
    """Return the runs of the launch that asked for the same and came to no end."""
    from rlx.api.runs import open_index
    from rlx.runs.launching.launch import unfinished

    pending = unfinished(open_index(), asked)
    return pending.runs if pending else ()


def _earlier(missing: MissingRuns | None) -> dict[int, str]:
    """Where the other arms of the missing runs' blocks are."""
    if missing is None or missing.completes:
        return {}
    from rlx.api.runs import open_index

    refs = {ref.run_id: ref for ref in open_index().known_runs()}
    runs = (slot.run for slot in missing.slots if slot.run is not None)
    return {run.seed: refs[run.run_id].host for run in runs if run.run_id in refs}


def _is_there(host: str, found: Sequence[SweepHost]) -> bool:
    return any(one.name == host for one in found)


def _of_blocks(
    settled: _Places, found: Sequence[SweepHost], blocks: Mapping[int, object], begun: Sequence[RunRef]
) -> list[Finding]:
    """Report blocks whose host takes no part, unless all their runs exist."""
    apart = [(seed, host) for seed, host in settled.items() if seed in blocks and not _is_there(host, found)]
    if not begun:
        return [_split(seed, host) for seed, host in apart]
    away = _not_arrived(begun) if apart else set()
    return [_stays(seed, host) for seed, host in apart if seed in away]


def _not_arrived(begun: Sequence[RunRef]) -> set[int]:
    """Return the seeds of runs of which their hosts have not said that they are there."""
    from rlx.api.runs import open_index

    there = {ref.run_id for ref in open_index().runs()}
    return {ref.seed for ref in begun if ref.run_id not in there}


def _told(left_out: ExcludedHost) -> Finding:
    message = f"{left_out.host} is left out, the others take its share: {left_out.why}"
    return Finding("RLX043", Severity.WARNING, message, f"rlx doctor {left_out.host} shows all that is known of it")


def _split(seed: int, host: str) -> Finding:
    message = f"the other arms of seed {seed} ran on {host}, which takes no part: arms would differ by host"
    return Finding("RLX044", Severity.WARNING, message, f"add {host} to --host, or --again --seed {seed} for all arms")


def _stays(seed: int, host: str) -> Finding:
    message = f"the runs of seed {seed} went to {host} before the launch was interrupted, and may have started there"
    return Finding("RLX045", Severity.WARNING, message, f"the same launch again once {host} can be used")


def _no_host_left(left_out: Sequence[ExcludedHost]) -> RlxError:
    """Return the error where no host is left: if all refuse, the recipe is at fault; a timeout is no refusal."""
    from rlx.api.planning import refusal_code
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


@dataclass(frozen=True, slots=True)
class ExcludedHost:
    """A host that takes no part: the findings that speak against it, or why it could not be asked."""

    host: str
    why: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepHost:
    """A host that takes part. `trees`: by the number of the recipe, the back-end that it would import there."""

    target: Target
    resolved: Sequence[ResolvedRecipe]
    trees: Sequence[Installation | None]
    looks: tuple[QueriedHost, ...]
    capacity: HostCapacity

    @property
    def name(self) -> str:
        """Return the name of the host."""
        return self.target.host.name

    def planned_runs(self, block: Sequence[ResolvedRecipe]) -> list[PlannedRun]:
        """Plan these for this host."""
        from rlx.api.planning import PlannedRun, plan_on

        trees = {id(one): tree for one, tree in zip(self.resolved, self.trees, strict=True)}
        return [PlannedRun(plan_on(one, self.target, trees[id(one)]), trees[id(one)]) for one in block]


def look_at_hosts(
    targets: Sequence[Target], resolved: Sequence[ResolvedRecipe], first: Sequence[ResolvedRecipe], strict: bool
) -> tuple[list[SweepHost], list[ExcludedHost]]:
    """Check the `first` block on every host; its findings are those that all blocks share.

    Raises UsageError for what no host can mend.
    """
    from rlx.runs.queries import in_parallel

    answers = in_parallel(targets, lambda target: _look(target, resolved, first, strict))
    for problem in (one for one in answers if isinstance(one, RlxError)):
        raise problem
    there = [one for one in answers if isinstance(one, SweepHost)]
    return there, [one for one in answers if isinstance(one, ExcludedHost)]


def _look(
    target: Target, resolved: Sequence[ResolvedRecipe], first: Sequence[ResolvedRecipe], strict: bool
) -> SweepHost | ExcludedHost:
    from rlx.api.planning import Plans
    from rlx.hosts.host_errors import HostError

    try:
        found = _examined(target, resolved)
        planned_runs = found.planned_runs(first)
        if fatal := Plans(tuple(planned_runs), found.looks).fatal(strict):
            return ExcludedHost(found.name, "; ".join(f"{finding.id} {finding.message}" for finding in fatal), fatal)
        return replace(found, capacity=_capacity(found, [planned.plan for planned in planned_runs]))
    except HostError as error:
        name = target.host.name
        return ExcludedHost(name, error.message.splitlines()[0].removeprefix(f"{name}: "))


def _examined(target: Target, resolved: Sequence[ResolvedRecipe]) -> SweepHost:
    """Query a host and its back-ends. Raises HostError."""
    from rlx.api.hosts import HostQueries
    from rlx.api.planning import find_backends

    looks = HostQueries(target)
    found = find_backends(looks, resolved, target)
    place = looks.found()
    return SweepHost(place, resolved, found(), looks.result(), HostCapacity(target.host.name, 1, 0))


def _capacity(found: SweepHost, plans: Sequence[LaunchPlan]) -> HostCapacity:
    """Return how many runs fit on the host. Raises HostError."""
    from rlx.runs import query_leases

    site, kind = found.target.site, plans[0].device_kind
    leases = query_leases(site.place, site.leases)
    devices = max(plan.devices for plan in plans)
    return HostCapacity(
        found.name, max(1, (_devices(found, kind) - _taken(leases, kind)) // devices), _ahead(leases, kind)
    )


def _devices(found: SweepHost, kind: str) -> int:
    """Return as many as its entry says, or as the query found; 0 where unknown."""
    declared = found.target.host.device
    if kind == "cpu":
        return 1
    if declared and declared.count is not None:
        return declared.count
    sides = (look.results.environment for look in found.looks)
    return max((len(side.of("devices").get("numbers") or ()) for side in sides if side), default=0)


def _taken(leases: Leases, kind: str) -> int:
    """Count the devices in use outside the queue, which no run can have."""
    return len({one.device for one in leases.foreign if one.kind == kind})


def _ahead(leases: Leases, kind: str) -> int:
    held = {one.run_id for one in leases.held if one.kind == kind}
    return len(held | {one.run_id for one in leases.waiting if one.kind == kind})


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep as it was dealt. `hosts`, `container` and `devices` as typed; `plans` by seed and arm.

    `watched`: by arm, the noise of another arm that is watched for in it. `widths`: by host, how many runs fit there.
    """

    hosts: tuple[str, ...]
    container: str | None
    devices: str | None
    widths: Mapping[str, int]
    watched: Mapping[str, Any]
    plans: Mapping[tuple[int, str], LaunchPlan]


def sweep_folder(home: Path) -> Path:
    """Return the folder of the sweeps; without it none was launched."""
    return home / "sweeps"


def keep_sweep(home: Path, plans: Plans) -> None:
    """Write it down before anything is shipped; of a launch that is brought to its end the first one stays.

    Raises RlxError.
    """
    distribution = plans.distribution
    if distribution is None:
        return
    path = _path(home, distribution.asked)
    document = {
        "hosts": distribution.hosts,
        "container": distribution.container,
        "devices": distribution.devices,
        "widths": {capacity.host: capacity.width for capacity in distribution.capacities},
        "watched": distribution.watched,
        "plans": to_jsonable(plans.plans),
    }
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and not distribution.is_new:
            return
        scratch.write_bytes(gzip.compress(json.dumps(document).encode(errors="surrogateescape"), 6))
        scratch.chmod(0o600)
        scratch.replace(path)
    except OSError as error:
        raise RlxError(
            f"{path}: {error.strerror}", "rlx keeps there what it needs to move runs to a free host"
        ) from None


def read_sweep(home: Path, asked: str) -> SweepFile | None:
    """Read the sweep with this digest; None where none was launched, or it cannot be read."""
    with suppress(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, UsageError):
        with open_regular(_path(home, asked)) as packed, gzip.open(packed) as file:
            document = parse_json(bounded(file, _MOST_BYTES))  # type: ignore[arg-type]
        plans = [from_jsonable(LaunchPlan, plan, "plan") for plan in document["plans"]]
        return SweepFile(
            hosts=tuple(document["hosts"]),
            container=document["container"],
            devices=document["devices"],
            widths=dict(document["widths"]),
            watched=dict(document["watched"]),
            plans={(plan.seed, plan.arm): plan for plan in plans},
        )
    return None


def _path(home: Path, asked: str) -> Path:
    return sweep_folder(home) / f"{asked}.json.gz"


@contextmanager
def only_one(home: Path, *, wait: bool) -> Iterator[bool]:
    """Launch or move a sweep as the only rlx of this home; False where another one is working and `wait` is false."""
    folder = sweep_folder(home)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
