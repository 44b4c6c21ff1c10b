"""Records what a version of rlx leaves behind, with the code of that version; see README.md. Removes /tmp/rlx-before."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOME = Path("/tmp/rlx-before")
RECIPES = (
    "tiny-cpu",
    "qwen2.5-1.5b-gsm8k-npu",
    "nla-qwen2.5-7b-megatron-tp2",
    "qwen3-8b-deepscaler-mindspeed-npu16",
)
ACCURACY = "val-core/gsm8k/acc/mean@1"
SERIES = {"baseline": {0: 0.1, 1: 0.62, 2: 0.68}, "fast": {0: 0.1, 1: 0.71, 2: 0.7}}
FOREVER = "while :; do sleep 0.2; done\n"


def script(series: Mapping[int, float]) -> str:
    lines = ["train dataset size: 400, val dataset size: 100", "Total training steps: 2"]
    lines += [
        f"(TaskRunner pid=7) step:{step} - timing_s/step:1.0 - {ACCURACY}:np.float64({value})"
        for step, value in series.items()
    ]
    metrics = [json.dumps({"step": step, "data": {"timing_s/step": 1.0, ACCURACY: v}}) for step, v in series.items()]
    log, table = "\n".join(lines), "\n".join(metrics)
    return f"cat <<'END'\n{log}\nEND\ncat >\"$RLX_ATTEMPT_DIR/metrics.jsonl\" <<'END'\n{table}\nEND\n"


def plan(arm: str, text: str) -> Any:
    from rlx.hosts import local_site
    from rlx.plan import Expectations, LaunchPlan, PlannedFile

    return LaunchPlan(
        name="exp" if arm in SERIES else "endless",
        arm=arm,
        control="baseline" if arm in SERIES else None,
        seed=1,
        backend="verl",
        backend_version="0.9.1",
        site=local_site(),
        command=("bash",),
        env={},
        secrets=(),
        files=(PlannedFile("launch.sh", text, 0o700),),
        expectations=Expectations(2, (0, 1, 2), True, 100, 1, "auto", None, False),
        treatment=("train.lr",) if arm == "fast" else (),
        recipe={"train": {"lr": 2e-6 if arm == "fast" else 1e-6}},
        device_kind="cpu",
        devices=1,
    )


def rlx(*arguments: str) -> str:
    return subprocess.run([sys.executable, "-m", "rlx", *arguments], capture_output=True, text=True, check=False).stdout


def runs() -> dict[str, Mapping[str, Any]]:
    return {run["arm"]: run for run in json.loads(rlx("status", "-a", "--json"))["runs"]}


def wait_for(**states: str) -> None:
    while {arm: run["state"] for arm, run in runs().items()} != states:
        time.sleep(0.2)


def pack(target: Path, *names: str) -> None:
    with tarfile.open(target, "w:gz") as archive:
        for name in names:
            archive.add(HOME / name, name)


def main(folder: Path) -> None:
    """Two finished arms, what was sent to start a third run, and the index while that runs."""
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(mode=0o700)
    os.environ |= {"HOME": str(HOME), "RLX_HOME": str(HOME / "home"), "RLX_CONFIG": str(HOME / "config")}
    os.environ |= {"RLX_PROJECT": os.devnull, "RLX_TMUX_SOCKET": "rlx-before", "RLX_LEASES": "/tmp/rlx-before/leases"}
    os.environ.pop("RLX_ROOT", None)
    from rlx.runs import launch

    (folder / "plans").mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        text = rlx("plan", recipe, "--json")
        assert json.loads(text)["plans"], recipe
        (folder / "plans" / f"{recipe}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    launch([plan(arm, script(series)) for arm, series in SERIES.items()], {}, HOME / "home")
    wait_for(baseline="finished", fast="finished")
    rlx("compare", "baseline", "fast")
    sent: list[bytes] = []
    module: Any = sys.modules[launch.__module__]
    deliver = module.deliver

    def record(part: object, launch_id: str, archive: bytes) -> object:
        sent.append(archive)
        return deliver(part, launch_id, archive)

    module.deliver = record
    (endless,) = launch([plan("endless", script({0: 0.1, 1: 0.5}) + FOREVER)], {}, HOME / "home").runs
    wait_for(baseline="finished", fast="finished", endless="running")
    pack(folder / "home.tar.gz", "home")
    rlx("stop", endless.run_id, "-y")
    (folder / "shipment.tar.gz").write_bytes(sent[0])
    shutil.rmtree(HOME / "rlx" / "runs" / endless.run_id)
    pack(folder / "root.tar.gz", "rlx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
