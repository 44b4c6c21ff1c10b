"""The verdict of a run, judged once as long as nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from rlx.errors import RlxError
from rlx.evidence import (
    Evidence,
    JudgedRun,
    Verdict,
    gap_metric,
    judge,
    judge_unplanned,
    removed,
    series,
    with_settings_of,
)
from rlx.evidence.traces import Setup
from rlx.evidence.waivers import Waiver
from rlx.model import LaunchPlan, RunState, from_jsonable, to_jsonable
from rlx.model.verdict_rules import RULES
from rlx.runs.index.kept_waivers import read_waivers
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.judging.run_setup import digest_of_setup, setup_of

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
    """The same evidence is held against the same plan once: of evidence that was kept, the verdict is kept, too.

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
    kept = parsed.remembered(what, of, lambda: to_jsonable(judged()))
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
