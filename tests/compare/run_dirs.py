"""Run directories as rlx leaves them: manifest, log, exit record. 100 validation rows."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from rlx.model import LOCAL, LaunchPlan, NoiseSchedule, Registration, Site
from rlx.model.registration import RegisteredArm
from rlx.runs.manifest import render_manifest
from rlx.runs.run import RunRef
from tests.compare.builders import METRIC, RunBuilder

CONTROL = RunBuilder(series={0: 0.1, 3: 0.62, 6: 0.68}, planned_rows=100, recipe={"train": {"lr": 1e-6}})
TREATMENT = RunBuilder(
    arm="fast",
    series={0: 0.1, 3: 0.71, 6: 0.7},
    planned_rows=100,
    recipe={"train": {"lr": 2e-6}},
    treatment=("train.lr",),
)
# Six steps that should have had noise, of which the log shows none.
SILENT = replace(
    TREATMENT,
    arm="aqn",
    recipe={"train": {"lr": 1e-6}, "aqn": {"stages": 3}},
    treatment=("aqn.stages",),
    noise=NoiseSchedule((0.0, 0.0, 0.05, 0.05, 0.01, 0.01), 3, ("rmsnorm",), "payload", False),
)


SLOW, FAST = (0.60, 0.62, 0.61), (0.70, 0.73, 0.71)
ASKED = Registration(
    name="gsm8k",
    question="Does a larger rate help?",
    metric=METRIC,
    at="last",
    validations=1,
    test="superiority",
    margin=None,
    seeds=(1, 2, 3),
    spare_seeds=(),
    several="dunnett",
    pairing="none",
    secondary=(),
    control="baseline",
    arms=(RegisteredArm("baseline", (), "0", "e"), RegisteredArm("fast", ("train.lr",), "1", "e")),
    registered="2026-11-20T11:00:00Z",
    by="me@laptop",
)


NOTHING: Mapping[str, float] = MappingProxyType({})


def arm_of(
    builder: RunBuilder, finals: Sequence[float], asked: Registration = ASKED, first: int = 1
) -> list[RunBuilder]:
    """One run a value at step 6, with seeds from `first`."""
    return [
        replace(builder, seed=seed, series={0: 0.1, 3: 0.5, 6: final}, registration=asked)
        for seed, final in enumerate(finals, start=first)
    ]


def write_run(
    plan: LaunchPlan,
    series: Mapping[int, float],
    supervisor: int | None,
    minute: int = 0,
    further: Mapping[str, float] = NOTHING,
) -> None:
    """One run directory below $RLX_ROOT, 100 validation rows; one that is still supervised has a step to go.

    `further`: more metrics of each validation, and their value. `minute`: when it was launched; runs of one minute are
    of one launch.
    """
    finished = supervisor is None
    root, now = os.environ["RLX_ROOT"], time.time()
    plan = replace(plan, site=Site(root=root))
    stamp = f"20261120-12{minute:02}00"
    run_id = f"{plan.run_name}-{stamp}-abcd"
    ref = RunRef(run_id, f"{stamp}-abcdef", plan.name, plan.arm, plan.seed, LOCAL, root, now + 60 * minute)
    state = ref.run_dir / "attempts" / "1" / "state"
    state.mkdir(parents=True)
    (ref.run_dir / "manifest.json").write_text(render_manifest(ref, 0, plan), encoding="utf-8")
    steps = range(max(series) + finished)
    shown = {
        step: {"timing_s/step": 1.0, **({METRIC: series[step], **further} if step in series else {})} for step in steps
    }
    (state.parent / "log").write_text("\n".join(log_lines(shown, max(series))) + "\n", encoding="utf-8")
    metrics = [json.dumps({"step": step, "data": data}) for step, data in shown.items()]
    (state.parent / "metrics.jsonl").write_text("\n".join(metrics) + "\n", encoding="utf-8")
    (state / "started").touch()
    if supervisor is None:
        (state / "exit").write_text(f"0 leader {now:.0f} 100\n", encoding="utf-8")
    else:
        (state / "supervisor").write_text(identity_of(supervisor) + "\n", encoding="utf-8")


def log_lines(shown: Mapping[int, Mapping[str, float]], total: int) -> list[str]:
    lines = ["train dataset size: 400, val dataset size: 100", f"Total training steps: {total}"]
    for step, values in shown.items():
        words = " - ".join(f"{key}:np.float64({value})" for key, value in values.items())
        lines.append(f"(TaskRunner pid=7) step:{step} - {words}")
    return lines


def identity_of(pid: int) -> str:
    tick = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[19]
    return f"{pid} {tick} {Path('/proc/sys/kernel/random/boot_id').read_text(encoding='utf-8').strip()}"
