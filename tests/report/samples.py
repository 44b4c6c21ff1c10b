"""Runs to report on: recorded ones of tiny models, and curves of a published experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlx.compare import compare
from rlx.evidence import JudgedRun, NoiseEvent, VerdictStatus, judge, read_evidence
from rlx.model import NoiseSchedule, RunState, sigmas_by_step
from rlx.report import Report
from tests.compare.builders import RunBuilder
from tests.conftest import CASES
from tests.recorded import recorded_expectations

SIGMAS = sigmas_by_step(0.05, 0.0005, 10, 116)
NOISE = NoiseSchedule(SIGMAS, 10, ("rmsnorm",), "payload", False)
CONTROL = {0: 122, 20: 813, 40: 875, 60: 873, 80: 898, 100: 912, 116: 899}
GLOBAL = {0: 118, 20: 765, 40: 851, 60: 877, 80: 862, 100: 882, 116: 907}
EPOCH_AWARE = {0: 95, 20: 814, 40: 861, 60: 903, 80: 903, 100: 920, 116: 931}


def recorded(name: str, arm: str) -> JudgedRun:
    """A run of `tests/cases/logs`, judged as rlx judges it."""
    folder = CASES / "logs" / name
    expectations = recorded_expectations(json.loads((folder / "expectations.json").read_text(encoding="utf-8")))
    evidence = read_evidence([folder])
    noise = {"aqn": {"sigma_start": 0.05, "of": name}} if expectations.noise else {}
    run = RunBuilder(arm, recipe=noise, treatment=tuple(noise)).judged()
    found = folder / "provenance.json"
    return replace(
        run,
        plan=replace(run.plan, expectations=expectations),
        evidence=evidence,
        verdict=judge(evidence, expectations, RunState.FINISHED, arm=arm),
        provenance=json.loads(found.read_text(encoding="utf-8")) if found.exists() else {},
    )


def published(arm: str, right: Mapping[int, int], **changes: Any) -> JudgedRun:
    """An arm of the experiment from its right answers out of 1319 by step."""
    return RunBuilder(arm, {step: count / 1319 for step, count in right.items()}, **changes).judged()


def treated(
    arm: str, right: Mapping[int, int], scale: float = 1.0, status: VerdictStatus = VerdictStatus.VALID
) -> JudgedRun:
    """The same with noise planned, of which `scale` was applied; 0 is what the epoch-aware bug does."""
    run = published(arm, right, status=status, noise=NOISE, recipe={"aqn": {"stages": 10}}, treatment=("aqn",))
    events = tuple(
        NoiseEvent(step, scale * sigma, 57, changed=981, elements=1000) for step, sigma in enumerate(SIGMAS, start=1)
    )
    totals = replace(run.evidence.totals, total_steps=116)
    return replace(run, evidence=replace(run.evidence, noise=events, totals=totals))


def report_of(control: JudgedRun, *treatments: JudgedRun) -> Report:
    comparison = compare([control], [[run] for run in treatments])
    return Report([control, *treatments], comparison, "2026-11-21 12:00", "made by rlx 0")


def three_arms() -> Report:
    """A control, a valid treatment, and one without effect."""
    return report_of(
        published("baseline", CONTROL),
        treated("aqn", GLOBAL),
        treated("epoch-aware", EPOCH_AWARE, scale=0.0, status=VerdictStatus.INVALID),
    )
