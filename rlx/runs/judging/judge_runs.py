"""A run with everything that is known of it: what was planned, what the log shows, and the verdict of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.evidence import (
    Disagreement,
    Evidence,
    JudgedRun,
    Verdict,
    VerdictStatus,
    conflicts,
    gap_metric,
    judge,
    judge_unplanned,
    overlaps,
    read_evidence,
    removed,
    series,
    settings_of,
    settings_of_config,
    with_configuration,
    with_nodes,
    with_settings_of,
)
from rlx.evidence.reading.run_usage import read_run_usage
from rlx.evidence.traces import Setup
from rlx.evidence.waivers import Waiver
from rlx.model import LaunchPlan, RunState, from_jsonable, to_jsonable
from rlx.model.verdict_rules import RULES
from rlx.runs.bundles.bundled_run import noted_rules
from rlx.runs.importing.log_copy import lacks, silent_as_of
from rlx.runs.importing.log_source import LogSource, is_adopted, read_source, source_of
from rlx.runs.index.kept_waivers import read_waivers
from rlx.runs.judging.configuration import (
    configurations,
    digest_of_setup,
    found_at_start,
    mismatches_of,
    printed_configuration,
    reconfigured,
    setup_of,
)
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.status.snapshots import UNREAD, Files, Snapshot, cached_snapshots, take_snapshots

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index


def judge_runs(index: Index, refs: Sequence[RunRef]) -> list[JudgedRun]:
    """Judge runs, in the order given, by all that their hosts have of them.

    A host that cannot be asked is no obstacle if the run is over and its evidence is here. Raises RlxError for a run
    of which too little is known: its host's error, or that it has no manifest.
    """
    snapshots = take_snapshots(index, refs, Files.WHOLE)
    for snapshot in snapshots.values():
        _refuse_unknown(snapshot)
    judged, parsed = judge_snapshots(index, snapshots), ParsedFiles(index.home)
    return [_with_config(_sound(judged[ref.run_id]), snapshots[ref.run_id], parsed) for ref in refs]


def judge_cached(index: Index, refs: Sequence[RunRef]) -> list[JudgedRun]:
    """Judge those of these runs that have ended, by their files on this machine; no host is queried."""
    judged = judge_snapshots(index, cached_snapshots(index, refs))
    return [run for ref in refs if isinstance(run := judged.get(ref.run_id), JudgedRun)]


def judge_snapshots(index: Index, snapshots: Mapping[str, Snapshot]) -> dict[str, JudgedRun | RlxError]:
    """Judge snapshots, by id, without those that have no readable manifest.

    A run whose records make the judgement fail is its error, because they come from others and cost the other runs
    nothing.
    """
    parsed, rules = ParsedFiles(index.home), noted_rules(index.home)
    return {
        run_id: _judged_alone(snapshot, snapshot.manifest, parsed, rules)
        for run_id, snapshot in snapshots.items()
        if snapshot.manifest is not None
    }


def _judged_alone(snapshot: Snapshot, manifest: Manifest, parsed: ParsedFiles, rules: int) -> JudgedRun | RlxError:
    try:
        return _judge(snapshot, manifest, parsed, rules)
    except (RlxError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a run's records do, it is this run's trouble
        return unjudged(snapshot.ref, error)


def unjudged(ref: RunRef, error: Exception) -> RlxError:
    """Word an unexpected error over the records of one run."""
    reason = f"{type(error).__name__}: {str(error)[:100]}"
    return RlxError(
        f"{ref.run_id}: its records cannot be judged ({reason})", "rlx diagnose RUN shows what its log says"
    )


def _sound(judged: JudgedRun | RlxError) -> JudgedRun:
    if isinstance(judged, RlxError):
        raise judged
    return judged


def _refuse_unknown(snapshot: Snapshot) -> None:
    copy, ref = snapshot.copy, snapshot.ref
    if copy.problem is not None and copy.final_state is None:
        raise copy.problem
    if snapshot.disbelief:
        raise RlxError(
            f"{ref.host}: {ref.run_id}: {snapshot.disbelief}", "ask whoever can write its run directory there"
        )
    if snapshot.manifest is None:
        raise RlxError(
            f"{ref.host}: {ref.remote_dir} has no manifest.json that this rlx can read",
            "was the run directory removed, or written by another version of rlx?",
        )


def judge_beside(index: Index, pairs: Iterable[tuple[JudgedRun, JudgedRun]]) -> list[JudgedRun]:
    """Each control and run: the run judged again with its control at hand, which sharpens the second witness.

    It is unchanged where that is none.
    """
    parsed = ParsedFiles(index.home)
    return [_beside(control, run, parsed) for control, run in pairs]


def _beside(control: JudgedRun, run: JudgedRun, parsed: ParsedFiles) -> JudgedRun:
    if run.plan.expectations.noise is None or control.plan.expectations.noise is not None:
        return run
    if control.verdict.status is VerdictStatus.INVALID:
        return run
    rules, latest = run.verdict.rules, run.latest
    sent = run.provenance.get("files") or {}
    verdict = verdict_of(run.run_id, run.plan, run.evidence, run.state, parsed, control, rules, latest, sent)
    return replace(run, verdict=verdict)


def _judge(snapshot: Snapshot, manifest: Manifest, parsed: ParsedFiles, rules: int) -> JudgedRun:
    ref, plan, copy, paths = snapshot.ref, manifest.plan, snapshot.copy, RunPaths(snapshot.copy.run_dir)
    evidence = read_evidence(paths.attempts, parsed) if snapshot.evidence is UNREAD else snapshot.evidence
    evidence = with_nodes(evidence, snapshot.workers.attempts)
    missing = copy.lacks or lacks(copy.run_dir) or manifest.lacks or snapshot.workers.lacks(snapshot.state)
    conflicts = conflicts_of(copy.run_dir, evidence, parsed)
    settings, backend = settings_of(plan.recipe), plan.backend if plan.has_recipe else ""
    evidence = replace(
        evidence,
        missing=missing,
        conflicts=conflicts,
        settings=settings,
        backend=backend,
        reconfigured=reconfigured(backend, paths.attempts, parsed),
        setting_mismatches=mismatches_of(plan, paths.attempts, evidence, parsed),
    )
    if not plan.has_recipe:
        config = printed_configuration(paths.latest, parsed)
        expectations, evidence = with_configuration(plan.expectations, evidence, config)
        plan = replace(plan, expectations=expectations)
    return JudgedRun(
        run_id=ref.run_id,
        name=plan.run_name,
        arm=plan.arm,
        seed=plan.seed,
        plan=plan,
        evidence=evidence,
        verdict=verdict_of(
            ref.run_id, plan, evidence, snapshot.state, parsed, rules=rules, latest=paths.latest, sent=manifest.digests
        ),
        state=snapshot.state,
        provenance={**found_at_start(paths.latest), "files": manifest.digests, "logs": _logs_of(copy.run_dir)},
        # Whoever took a run in has not submitted it.
        submitted_by={} if is_adopted(ref) else manifest.submitted_by,
        as_of=copy.as_of or silent_as_of(copy.run_dir),
        latest=paths.latest,
    )


def _logs_of(run_dir: Path) -> tuple[str, ...]:
    """Return the digests of the logs of an imported run; none for other runs."""
    source = source_of(run_dir)
    return source.digests if source else ()


def _with_config(run: JudgedRun, snapshot: Snapshot, parsed: ParsedFiles) -> JudgedRun:
    """Read where runs are compared only: it takes longer than a status should."""
    paths = RunPaths(snapshot.copy.run_dir)
    found = configurations(paths.latest, parsed)
    provenance = {**run.provenance, **found}
    others = {name: read_run_usage(attempts) for name, attempts in snapshot.workers.nodes.items()}
    run = replace(run, usage=read_run_usage(paths.attempts), usage_of_others=others)
    seen = settings_of_config(found.get("config") or found.get("printed_config") or {})
    if seen.items() <= run.evidence.settings.items():
        return replace(run, provenance=provenance)
    evidence = replace(run.evidence, settings={**run.evidence.settings, **seen})
    rules = run.verdict.rules
    sent = run.provenance.get("files") or {}
    verdict = verdict_of(run.run_id, run.plan, evidence, run.state, parsed, rules=rules, latest=paths.latest, sent=sent)
    return replace(run, provenance=provenance, evidence=evidence, verdict=verdict)


_NOTHING_SENT: Mapping[str, str] = MappingProxyType({})


def verdict_of(
    run_id: str,
    plan: LaunchPlan,
    evidence: Evidence,
    state: RunState,
    parsed: ParsedFiles,
    control: JudgedRun | None = None,
    rules: int = RULES,
    latest: Path | None = None,
    sent: Mapping[str, str] = _NOTHING_SENT,
) -> Verdict:
    """Judge the same evidence against the same plan only once: of cached evidence, the verdict is cached, too.

    `latest`: the folder of the latest attempt; None: nothing is known of what its engine composed. `sent`: the digests
    of the files that were sent with the run.
    """

    def judged() -> Verdict:
        return _judged(plan, evidence, state, control, rules, setup_of(plan, latest, parsed, sent), waivers)

    waivers = _waivers_of(parsed.home, run_id, latest)

    setup_digest = digest_of_setup(latest)
    if (
        not evidence.digest
        or (latest is not None and not setup_digest)
        or (control is not None and not control.evidence.digest)
    ):
        return _with_waived(judged(), plan)
    promised = plan.has_recipe, plan.arm, with_settings_of(plan.recipe, plan.expectations)
    # The same run is judged as it is, with its configuration, and beside its control.
    what = run_id, promised, evidence.settings, control is not None
    beside = control and (control.evidence.digest, control.plan.expectations.correction)
    added = evidence.missing, evidence.conflicts, evidence.reconfigured, evidence.setting_mismatches
    setup = setup_digest, plan.treatment, plan.command, sorted(sent.items())
    of = evidence.digest, beside, added, state, rules, setup, to_jsonable(waivers)
    kept = parsed.cached(what, of, lambda: to_jsonable(judged()))
    return _with_waived(from_jsonable(Verdict, kept), plan)


def _judged(
    plan: LaunchPlan,
    evidence: Evidence,
    state: RunState,
    control: JudgedRun | None,
    rules: int,
    setup: Setup,
    waivers: Sequence[Waiver],
) -> Verdict:
    if not plan.has_recipe and plan.expectations.noise is None:
        return judge_unplanned(
            evidence, plan.expectations, state, launched=plan.is_launched, rules=rules, waivers=waivers
        )
    gap = series(control.evidence, gap_metric(control.evidence)) if control else {}
    alike = control is not None and control.plan.expectations.correction == plan.expectations.correction
    taken = removed(control.evidence) if control and alike else {}
    expectations = with_settings_of(plan.recipe, plan.expectations)
    return judge(
        evidence,
        expectations,
        state,
        arm=plan.arm,
        control_gap=gap or None,
        control_removed=taken or None,
        has_recipe=plan.has_recipe,
        rules=rules,
        setup=setup,
        waivers=waivers,
    )


def _waivers_of(home: Path, run_id: str, latest: Path | None) -> list[Waiver]:
    """Return what was accepted of this attempt; nothing where the file is damaged, which `rlx waive` reports."""
    try:
        found = read_waivers(home, run_id)
    except RlxError:
        return []
    return [each for each in found if each.attempt == (latest.name if latest else "")]


def _with_waived(verdict: Verdict, plan: LaunchPlan) -> Verdict:
    """Add what was accepted before the launch, because it belongs to what is said of the result."""
    taken = tuple(finding for finding in plan.findings if finding.waived)
    return replace(verdict, findings=(*verdict.findings, *taken))


def conflicts_of(run_dir: Path, evidence: Evidence, parsed: ParsedFiles) -> tuple[Disagreement, ...]:
    """Find where other logs that claim to be this run have other values; empty for a run that rlx started itself."""
    source = source_of(run_dir)
    manifest = read_manifest(run_dir) if source else None
    if source is None or manifest is None:
        return ()
    found = list(_within(run_dir, source, parsed))
    for other, known in _namesakes(run_dir, manifest):
        # Both of them tell it in the same words, the earlier one first.
        records = [(run_dir, evidence), (other, read_evidence(RunPaths(other).attempts, parsed))]
        if (known.created_epoch, known.run_id) < (manifest.created_epoch, manifest.run_id):
            records.reverse()
        labels = _labels(*(folder for folder, _ in records))
        found += conflicts(dict(zip(labels, (own for _, own in records), strict=True)))
    return tuple(found)


def _within(run_dir: Path, source: LogSource, parsed: ParsedFiles) -> tuple[Disagreement, ...]:
    attempts = RunPaths(run_dir).attempts
    if source.followed or len(attempts) < 2:
        return ()
    names = [Path(path).name for path in source.paths]
    labels = names if len(set(names)) == len(names) else source.paths
    records = (read_evidence([attempt], parsed) for attempt in attempts)
    return overlaps(dict(zip(labels, records, strict=True)))


def _namesakes(run_dir: Path, manifest: Manifest) -> Iterator[tuple[Path, Manifest]]:
    claim = (manifest.plan.name, manifest.plan.arm, manifest.plan.seed)
    for other in run_dir.parent.glob(f"{manifest.plan.run_name}-[0-9]*"):
        known = read_manifest(other) if other != run_dir else None
        if known is not None and (known.plan.name, known.plan.arm, known.plan.seed) == claim:
            yield other, known


def _labels(one: Path, other: Path) -> tuple[str, str]:
    """Return the shortest names that distinguish them."""
    sources = read_source(one), read_source(other)
    names = [", ".join(Path(path).name for path in source.paths) for source in sources]
    places = [str(source) for source in sources]
    return next((left, right) for left, right in (names, places, (one.name, other.name)) if left != right)
