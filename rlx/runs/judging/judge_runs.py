"""Judge runs: combine what was planned, what the log shows, and the verdict of both."""

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
    with_stated,
)
from rlx.evidence.device_use import read_run_usage
from rlx.evidence.run_configuration import whole_configuration
from rlx.evidence.traces import Setup
from rlx.evidence.verdict import Waiver
from rlx.model import LaunchPlan, RunState, from_jsonable, to_jsonable
from rlx.model.verdict_rules import RULES
from rlx.runs.bundles.bundled_run import noted_rules
from rlx.runs.importing.log_copy import lacks, silent_as_of
from rlx.runs.importing.log_source import is_adopted, read_source, source_of
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

_NOTHING_SENT: Mapping[str, str] = MappingProxyType({})


def judge_runs(index: Index, refs: Sequence[RunRef]) -> list[JudgedRun]:
    """Judge runs, in the order given, by all that their hosts have of them.

    A host that does not answer is no obstacle if the run is over and its evidence was copied. Raises RlxError for a run
    of which too little is known: its host's error, or that it has no manifest.
    """
    snapshots = take_snapshots(index, refs, Files.WHOLE)
    for snapshot in snapshots.values():
        _refuse_unknown(snapshot)
    judged, parsed, runs = judge_snapshots(index, snapshots), ParsedFiles(index.home), []
    for ref in refs:
        run = judged[ref.run_id]
        if isinstance(run, RlxError):
            raise run
        runs.append(_with_config(run, snapshots[ref.run_id], parsed))
    return runs


def judge_cached(index: Index, refs: Sequence[RunRef]) -> list[JudgedRun]:
    """Judge those of these runs that have ended, by their files on this machine; no host is queried."""
    judged = judge_snapshots(index, cached_snapshots(index, refs))
    return [run for ref in refs if isinstance(run := judged.get(ref.run_id), JudgedRun)]


def judge_snapshots(index: Index, snapshots: Mapping[str, Snapshot]) -> dict[str, JudgedRun | RlxError]:
    """Judge snapshots, by id in their order, without those that have no readable manifest.

    A run whose records cannot be judged yields an error: they were written by others, and must not affect other runs.
    """
    parsed, rules = ParsedFiles(index.home), noted_rules(index.home)
    judged: dict[str, JudgedRun | RlxError] = {}
    for run_id, snapshot in snapshots.items():
        if snapshot.manifest is not None:
            try:
                judged[run_id] = _judge(snapshot, snapshot.manifest, parsed, rules)
            except (RlxError, OSError):
                raise
            except Exception as error:  # noqa: BLE001 - any error in the records of a run concerns this run only
                judged[run_id] = unjudged(snapshot.ref, error)
    return judged


def unjudged(ref: RunRef, error: Exception) -> RlxError:
    """Describe an unexpected error in the records of one run."""
    reason = f"{type(error).__name__}: {str(error)[:100]}"
    return RlxError(
        f"{ref.run_id}: its records cannot be judged ({reason})", "rlx diagnose RUN shows what its log says"
    )


def judge_beside(index: Index, pairs: Iterable[tuple[JudgedRun, JudgedRun]]) -> list[JudgedRun]:
    """Judge the run of each (control, run) again: the control's gap is the baseline of the run's second signal.

    A run without noise, or whose control has noise or is invalid, is returned unchanged.
    """
    parsed, runs = ParsedFiles(index.home), []
    for control, run in pairs:
        has_noise = run.plan.expectations.noise is not None and control.plan.expectations.noise is None
        if has_noise and control.verdict.status is not VerdictStatus.INVALID:
            runs.append(replace(run, verdict=_judge_again(run, run.evidence, parsed, control)))
        else:
            runs.append(run)
    return runs


def _refuse_unknown(snapshot: Snapshot) -> None:
    copy, ref = snapshot.copy, snapshot.ref
    if copy.problem is not None and copy.final_state is None:
        raise copy.problem
    if snapshot.disbelief:
        raise RlxError(
            f"{ref.host}: {ref.run_id}: {snapshot.disbelief}", "ask the users who can write its run directory there"
        )
    if snapshot.manifest is None:
        raise RlxError(
            f"{ref.host}: {ref.remote_dir} has no manifest.json that this rlx can read",
            "check whether the run directory was removed, or written by another version of rlx",
        )


def _judge(snapshot: Snapshot, manifest: Manifest, parsed: ParsedFiles, rules: int) -> JudgedRun:
    ref, plan, copy, paths = snapshot.ref, manifest.plan, snapshot.copy, RunPaths(snapshot.copy.run_dir)
    evidence = read_evidence(paths.attempts, parsed) if snapshot.evidence is UNREAD else snapshot.evidence
    evidence = with_nodes(evidence, snapshot.workers.attempts)
    config = {} if plan.has_recipe else printed_configuration(paths.latest, parsed)
    # What an imported log shows is no record of a launch.
    backend = plan.backend if plan.has_recipe else whole_configuration(config) if plan.is_launched else ""
    evidence = replace(
        evidence,
        missing=copy.lacks or lacks(copy.run_dir) or manifest.lacks or snapshot.workers.lacks(snapshot.state),
        conflicts=_conflicts_of(copy.run_dir, evidence, parsed),
        settings=settings_of(plan.recipe),
        backend=backend,
        reconfigured=reconfigured(backend, paths.attempts, parsed),
        setting_mismatches=mismatches_of(plan, paths.attempts, evidence, parsed),
    )
    if not plan.has_recipe:
        expectations, evidence = with_configuration(plan.expectations, evidence, config)
        plan = replace(plan, expectations=with_stated(expectations, evidence))
    source = source_of(copy.run_dir)
    logs = source.digests if source else ()
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
        provenance={**found_at_start(paths.latest), "files": manifest.digests, "logs": logs},
        # The user who tracks or imports a run did not submit it.
        submitted_by={} if is_adopted(ref) else manifest.submitted_by,
        as_of=copy.as_of or silent_as_of(copy.run_dir),
        latest=paths.latest,
    )


def _with_config(run: JudgedRun, snapshot: Snapshot, parsed: ParsedFiles) -> JudgedRun:
    """Add configuration and usage, which only comparisons need: reading them takes longer than a status should."""
    paths = RunPaths(snapshot.copy.run_dir)
    found = configurations(paths.latest, parsed)
    others = {name: read_run_usage(attempts) for name, attempts in snapshot.workers.nodes.items()}
    run = replace(
        run,
        provenance={**run.provenance, **found},
        usage=read_run_usage(paths.attempts),
        usage_of_others=others,
    )
    settings = settings_of_config(found.get("config") or found.get("printed_config") or {})
    if settings.items() <= run.evidence.settings.items():
        return run
    evidence = replace(run.evidence, settings={**run.evidence.settings, **settings})
    return replace(run, evidence=evidence, verdict=_judge_again(run, evidence, parsed))


def _judge_again(run: JudgedRun, evidence: Evidence, parsed: ParsedFiles, control: JudgedRun | None = None) -> Verdict:
    sent = run.provenance.get("files") or {}
    return verdict_of(run.run_id, run.plan, evidence, run.state, parsed, control, run.verdict.rules, run.latest, sent)


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
    """Return the verdict on a run, cached as long as nothing that it depends on changes.

    `latest`: the folder of the latest attempt; None: the configuration that its engine composed is not known. `sent`:
    the digests of the files that were sent with the run.
    """
    try:
        waivers = [
            each for each in read_waivers(parsed.home, run_id) if each.attempt == (latest.name if latest else "")
        ]
    except RlxError:
        # The file is damaged, which `rlx waive` reports.
        waivers = []

    def judged() -> Verdict:
        return _verdict(plan, evidence, state, control, rules, setup_of(plan, latest, parsed, sent), waivers)

    setup_digest = digest_of_setup(latest)
    is_cacheable = evidence.digest and (latest is None or setup_digest) and (control is None or control.evidence.digest)
    if is_cacheable:
        expected = plan.has_recipe, plan.arm, with_settings_of(plan.recipe, plan.expectations)
        # The same run is judged as it is, with its configuration, and beside its control.
        key = run_id, expected, evidence.settings, control is not None
        baseline = control and (control.evidence.digest, control.plan.expectations.correction)
        not_in_digest = evidence.missing, evidence.conflicts, evidence.reconfigured, evidence.setting_mismatches
        setup = setup_digest, plan.treatment, plan.command, sorted(sent.items())
        inputs = evidence.digest, baseline, not_in_digest, state, rules, setup, to_jsonable(waivers)
        verdict = from_jsonable(Verdict, parsed.cached(key, inputs, lambda: to_jsonable(judged())))
    else:
        verdict = judged()
    # What was waived before the launch qualifies the result, too.
    waived = tuple(finding for finding in plan.findings if finding.waived)
    return replace(verdict, findings=(*verdict.findings, *waived))


def _verdict(
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
            evidence, plan.expectations, state, launched=plan.is_launched, rules=rules, setup=setup, waivers=waivers
        )
    gap = series(control.evidence, gap_metric(control.evidence)) if control else {}
    same_correction = control is not None and control.plan.expectations.correction == plan.expectations.correction
    control_removed = removed(control.evidence) if control and same_correction else {}
    return judge(
        evidence,
        with_settings_of(plan.recipe, plan.expectations),
        state,
        arm=plan.arm,
        control_gap=gap or None,
        control_removed=control_removed or None,
        has_recipe=plan.has_recipe,
        rules=rules,
        setup=setup,
        waivers=waivers,
    )


def _conflicts_of(run_dir: Path, evidence: Evidence, parsed: ParsedFiles) -> tuple[Disagreement, ...]:
    """Find where other logs that claim to be this run have other values; empty for a run that rlx started itself."""
    source = source_of(run_dir)
    manifest = read_manifest(run_dir) if source else None
    if source is None or manifest is None:
        return ()
    found: list[Disagreement] = []
    attempts = RunPaths(run_dir).attempts
    if not source.followed and len(attempts) > 1:
        names = [Path(path).name for path in source.paths]
        labels = names if len(set(names)) == len(names) else source.paths
        found += overlaps(dict(zip(labels, (read_evidence([one], parsed) for one in attempts), strict=True)))
    for other, known in _namesakes(run_dir, manifest):
        # Both runs report it in the same words, the earlier one first.
        records = [(run_dir, evidence), (other, read_evidence(RunPaths(other).attempts, parsed))]
        if (known.created_epoch, known.run_id) < (manifest.created_epoch, manifest.run_id):
            records.reverse()
        labels = _labels(*(folder for folder, _ in records))
        found += conflicts(dict(zip(labels, (record for _, record in records), strict=True)))
    return tuple(found)


def _namesakes(run_dir: Path, manifest: Manifest) -> Iterator[tuple[Path, Manifest]]:
    """Yield the other runs with the same name, arm and seed."""
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
