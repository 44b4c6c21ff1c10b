"""Records what a version of rlx leaves behind, with the code of that version; see README.md. Removes /tmp/golden."""

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
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HOME = Path("/tmp/golden")
OWN_RECIPES = Path(__file__).resolve().parent / "recipes"
RECIPES = (
    "tiny-cpu",
    "qwen2.5-1.5b-gsm8k-npu",
    "nla-qwen2.5-7b-megatron-tp2",
    "qwen3-8b-deepscaler-mindspeed-npu16",
)
ACCURACY = "val-core/gsm8k/acc/mean@1"
SERIES = {"baseline": {0: 0.1, 1: 0.62, 2: 0.68}, "fast": {0: 0.1, 1: 0.71, 2: 0.7}}
SEEDS = {("slow", 1): 0.68, ("slow", 2): 0.66, ("fast", 1): 0.7, ("fast", 2): 0.72}
FOREVER = "while :; do sleep 0.2; done\n"
# The package of a plan's values; 0.1 and 0.2 called it `plan`.
MODEL = "rlx.model" if find_spec("rlx.model") else "rlx.plan"


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

    model: Any = import_module(MODEL)
    made = model.LaunchPlan(
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
        files=(model.PlannedFile("launch.sh", text, 0o700),),
        expectations=model.Expectations(2, (0, 1, 2), True, 100, 1, "auto", None, False),
        treatment=("train.lr",) if arm == "fast" else (),
        recipe={"train": {"lr": 2e-6 if arm == "fast" else 1e-6}},
        device_kind="cpu",
        devices=1,
    )
    return sealed(made)


def sealed(made: Any) -> Any:
    """Return the plan as its version launches it: 0.1.0 had no seal, and later ones kept it in a module of its own."""
    home = f"{MODEL}.checked" if find_spec(f"{MODEL}.checked") else f"{MODEL}.launch_plan"
    seal = getattr(import_module(home), "seal", None)
    return seal(made) if seal else made


def asked_plans() -> list[Any]:
    """Both arms of the recorded experiment with both seeds, each with a script in place of the training."""
    import rlx

    planned_file = import_module(MODEL).PlannedFile

    made = []
    for one in rlx.plan(str(OWN_RECIPES / "asked.yaml")).plans:
        text = script({0: 0.1, 1: 0.5, 2: SEEDS[one.arm, one.seed]})
        files = (planned_file("launch.sh", text, 0o700),)
        made.append(sealed(replace(one, command=("bash",), files=files)))
    return made


def digests() -> dict[str, str]:
    """The digest of each recipe's experiment, of those that this version can read."""
    from rlx.backends.shared.registering import registration_of
    from rlx.errors import UsageError
    from rlx.recipe import load_recipe

    found = {}
    for path in sorted(OWN_RECIPES.glob("*.yaml")):
        try:
            file = load_recipe(path)
        except UsageError as problem:
            print(f"{path.name} is not for this version: {problem.message}")
            continue
        if registration := registration_of(file.name, file.control, file.experiment):
            found[path.name] = registration.digest
    return found


def rlx(*arguments: str) -> str:
    command = [sys.executable, "-m", "rlx", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8").stdout


def wait_for(*states: str) -> None:
    """Wait until the runs have these states, in any order."""
    while sorted(run["state"] for run in json.loads(rlx("status", "-a", "--json"))["runs"]) != sorted(states):
        time.sleep(0.2)


def pack(target: Path, *names: str) -> None:
    with tarfile.open(target, "w:gz") as archive:
        for name in names:
            archive.add(HOME / name, name)


def record_plans(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        text = rlx("plan", recipe, "--json")
        assert json.loads(text)["plans"], recipe
        (folder / f"{recipe}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def record_experiment(folder: Path) -> int:
    """A registered experiment with its four runs, and a bundle of them; the number of its runs."""
    if find_spec(f"{MODEL}.registration") is None:
        return 0
    from rlx.runs import launch

    (folder / "digests.json").write_text(json.dumps(digests(), indent=1) + "\n", encoding="utf-8")
    launch(asked_plans(), {}, HOME / "home")
    wait_for(*["finished"] * (2 + len(SEEDS)))
    os.chdir(HOME)
    rlx("report", "slow", "fast", "--bundle", str(HOME / "bundle.tar.gz"))
    shutil.copyfile(HOME / "bundle.tar.gz", folder / "bundle.tar.gz")
    return len(SEEDS)


def main(folder: Path) -> None:
    """Two finished arms, an experiment, what was sent to start one more run, and the index while that runs."""
    folder = folder.absolute()
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(mode=0o700)
    os.environ |= {"HOME": str(HOME), "RLX_HOME": str(HOME / "home"), "RLX_CONFIG": str(HOME / "config")}
    os.environ |= {"RLX_PROJECT": os.devnull, "RLX_TMUX_SOCKET": "rlx-golden", "RLX_LEASES": "/tmp/golden/leases"}
    os.environ.pop("RLX_ROOT", None)
    from rlx.runs import launch

    record_plans(folder / "plans")
    launch([plan(arm, script(series)) for arm, series in SERIES.items()], {}, HOME / "home")
    wait_for("finished", "finished")
    rlx("compare", "baseline", "fast")
    finished = ["finished"] * (2 + record_experiment(folder))
    sent: list[bytes] = []
    module: Any = sys.modules[launch.__module__]
    deliver = module.deliver

    def record(part: object, launch_id: str, archive: bytes) -> object:
        sent.append(archive)
        return deliver(part, launch_id, archive)

    module.deliver = record
    (endless,) = launch([plan("endless", script({0: 0.1, 1: 0.5}) + FOREVER)], {}, HOME / "home").runs
    wait_for(*finished, "running")
    pack(folder / "home.tar.gz", "home")
    rlx("stop", endless.run_id, "-y")
    (folder / "shipment.tar.gz").write_bytes(sent[0])
    shutil.rmtree(HOME / "rlx" / "runs" / endless.run_id)
    pack(folder / "root.tar.gz", "rlx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
