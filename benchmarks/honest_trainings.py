"""Sound trainings of many modes on this machine's CPU, and what the verdict says of each: any finding is a false alarm.

    python -m benchmarks.honest_trainings                     # all cells of the grid, an hour on two cores
    python -m benchmarks.honest_trainings verl-plain --keep   # one; keep its bundle as a fixture

The grid is tests/cases/honest-trainings/grid.toml. `--keep` writes NAME.tar.gz beside it, which is the archive of
`rlx report --bundle` with the names of this machine replaced, and NAME.json, which is what was found: read it before
you commit it. tests/evidence/test_honest_trainings.py judges what is kept. verl with vLLM and TRL need the environment
of `make engines`, all need `rlx data tiny-cpu`.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
FOLDER = REPOSITORY / "tests/cases/honest-trainings"
ENGINES = REPOSITORY / ".venv-engines/bin/python"
_PATIENCE_S = 900
MOST_WARNED = 0.05
COMMON = {
    "train.steps": "6",
    "eval.every": "3",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "32",
    "rollout.log_prob_micro_batch_size": "32",
    "arms.aqn.aqn.stages": "3",
}
IN_VLLM = {"model.path": "~/.cache/rlx/tiny-cpu/model-heads-32", "rollout.engine": "vllm"}


@dataclass(frozen=True)
class Cell:
    """A training of the grid. `engine`: vllm in place of the recipe's own. `resume_after`: see grid.toml."""

    name: str
    recipe: str
    modes: str
    arm: str = "baseline"
    engine: str = ""
    resume_after: int = 0
    set: dict[str, str] | None = None

    @property
    def engine_name(self) -> str:
        framework = "TRL" if "trl" in self.recipe else "verl"
        in_trl = "vLLM" if "vllm" in self.recipe else "transformers"
        return f"{framework}, {in_trl if framework == 'TRL' else 'vLLM' if self.engine else 'CPU rollout'}"

    def words(self) -> Iterator[str]:
        """Return the words of the launch that set keys."""
        settings = COMMON | (IN_VLLM if self.engine else {}) | (self.set or {})
        if self.engine or "trl" in self.recipe:
            settings["backend.python"] = str(ENGINES)
        for key, value in settings.items():
            yield from ("--set", f"{key}={value}")


@dataclass(frozen=True)
class Outcome:
    """What rlx says of a training that ended. `run` is its entry in `rlx status --json`, `code` that of `rlx wait`."""

    cell: Cell
    run: dict[str, Any]
    code: int
    seconds: float

    @property
    def expected(self) -> dict[str, Any]:
        """Return what a fixture's file beside it says."""
        verdict = self.run["verdict"]
        ids = [finding["id"] for finding in verdict["findings"]]
        modes = f"{self.cell.engine_name}: {self.cell.modes}"
        return {"run": self.run["run_id"], "modes": modes, "verdict": verdict["status"], "ids": ids}


def read_grid() -> dict[str, Cell]:
    rows = tomllib.loads((FOLDER / "grid.toml").read_text(encoding="utf-8"))
    return {name: Cell(name, **row) for name, row in rows.items()}


def train(cell: Cell, folder: Path) -> Outcome:
    """Train a cell to its end below `folder`, which is RLX's home, run root and leases at once."""
    began = time.monotonic()
    recipe = str(REPOSITORY / f"recipes/{cell.recipe}.yaml")
    launched = rlx(folder, "launch", recipe, "--host", "local", "--arm", cell.arm, *cell.words())
    if launched.returncode:
        raise SystemExit(f"{cell.name}: {launched.stderr}")
    run_id = launched.stdout.strip()
    if cell.resume_after:
        stop_after_checkpoint(folder, run_id, cell.resume_after)
        begun = rlx(folder, "retry", run_id, "--from-checkpoint")
        if begun.returncode:
            raise SystemExit(f"{cell.name}: {begun.stderr}")
    code = rlx(folder, "wait", run_id, "--timeout", f"{_PATIENCE_S}s").returncode
    return Outcome(cell, status(folder, run_id), code, time.monotonic() - began)


def stop_after_checkpoint(folder: Path, run_id: str, step: int) -> None:
    """Stop the run once a step later than that checkpoint is done, so that the checkpoint is whole."""
    deadline = time.monotonic() + _PATIENCE_S
    while (run := status(folder, run_id))["state"] not in ("finished", "failed") and (run["steps_done"] or 0) <= step:
        if time.monotonic() > deadline:
            raise SystemExit(f"{run_id}: no step after {step} within {_PATIENCE_S} s")
        time.sleep(0.5)
    rlx(folder, "stop", run_id, "--yes", "--grace", "2")


def status(folder: Path, run_id: str) -> dict[str, Any]:
    run: dict[str, Any]
    (run,) = json.loads(rlx(folder, "status", run_id, "--json").stdout)["runs"]
    return run


def rlx(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places = {"RLX_HOME": "home", "RLX_ROOT": "root", "RLX_LEASES": "leases"}
    environment = os.environ | {variable: str(folder / name) for variable, name in places.items()}
    environment |= {"RLX_TMUX_SOCKET": f"rlx-honest-{folder.name}", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "rlx", *words]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, encoding="utf-8"
    )


def keep(outcome: Outcome, folder: Path) -> None:
    """Write the fixture of a run: its bundle, without the names of this machine, and what is expected of it."""
    from rlx.runs.bundles.bundle_file import belongs, unpack_tar, write_tar

    written, unpacked = folder / "written.tar.gz", folder / "unpacked"
    done = rlx(folder, "report", outcome.run["run_id"], "--bundle", str(written))
    if not written.exists():
        raise SystemExit(f"{outcome.cell.name}: {done.stderr}")
    unpack_tar(written, unpacked, belongs)
    replace_names(unpacked, machine_names(folder))
    files = [str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()]
    with (FOLDER / f"{outcome.cell.name}.tar.gz").open("wb") as file:
        write_tar(unpacked, files, "made by rlx", file)
    text = json.dumps(outcome.expected, indent=2) + "\n"
    (FOLDER / f"{outcome.cell.name}.json").write_text(text, encoding="utf-8")


def machine_names(folder: Path) -> dict[str, str]:
    """Map what names this machine to what stands for it, the longest path first."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        unsent.connect(("192.0.2.1", 9))
        address = unsent.getsockname()[0]
    paths = {str(folder): "/home/me/run", str(REPOSITORY): "/home/me/rlx", str(Path.home()): "/home/me"}
    paths |= {str(ENGINES.parents[1].resolve()): "/home/me/engines", sys.base_prefix: "/usr"}
    ordered = {path: paths[path] for path in sorted(paths, key=len, reverse=True)}
    person = f"{getpass.getuser()}@{socket.gethostname()}"
    return ordered | {person: "me@laptop", socket.gethostname(): "laptop", address: "127.0.0.1"}


def replace_names(bundle: Path, names: dict[str, str]) -> None:
    """Replace names in all files of an unpacked bundle, and write anew the digests that follow from them."""
    from rlx.runs.bundles.bundle_file import DOCUMENT, SUMS
    from rlx.runs.bundles.bundled_run import file_sha256, manifest_sha256

    known = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names))
    for file in sorted(path for path in bundle.rglob("*") if path.is_file()):
        text = known.sub(lambda found: names[found[0]], file.read_text(encoding="utf-8"))
        # A file of events has the name of the machine in its own.
        file.write_text(text, encoding="utf-8")
        file.rename(file.with_name(known.sub(lambda found: names[found[0]], file.name)))
    document = json.loads((bundle / DOCUMENT).read_text(encoding="utf-8"))
    for run in document["runs"]:
        run["manifest"] = manifest_sha256(bundle, run["run_id"])
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    (bundle / DOCUMENT).write_text(text, encoding="utf-8")
    listed = sorted(str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file() and path.name != SUMS)
    sums = (f"{file_sha256(bundle / name)}  {name}\n" for name in listed)
    (bundle / SUMS).write_text("".join(sums), encoding="utf-8")


def print_table(outcomes: list[Outcome]) -> None:
    print("| cell | engine | modes | verdict | ids | exit code | seconds |\n|---|---|---|---|---|---|---|")
    for each in outcomes:
        ids = ", ".join(each.expected["ids"]) or "-"
        row = (each.cell.name, each.cell.engine_name, each.cell.modes, each.expected["verdict"], ids)
        print(f"| {' | '.join(row)} | {each.code} | {each.seconds:.0f} |")


def is_broken(outcomes: list[Outcome]) -> bool:
    """Tell whether a run is not valid, or more are warned of than the budget allows."""
    severities = [{finding["severity"] for finding in each.run["verdict"]["findings"]} for each in outcomes]
    unlike = [each for each in outcomes if each.code or each.run["verdict"]["status"] != "valid"]
    warned = sum("warning" in found for found in severities)
    return bool(unlike) or any("error" in found for found in severities) or warned > MOST_WARNED * len(outcomes)


def main() -> int:
    grid = read_grid()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cells; all if none is named")
    parser.add_argument("--keep", action="store_true", help="write the fixtures")
    parser.add_argument("--folder", type=Path, help="keep what the trainings leave there")
    given = parser.parse_args()
    if unknown := set(given.names) - grid.keys():
        parser.error(f"no cell is called {', '.join(sorted(unknown))}; there are {', '.join(grid)}")
    base = given.folder or Path(tempfile.mkdtemp(prefix="rlx-honest-"))
    outcomes = []
    for name in given.names or grid:
        folder = base / name
        folder.mkdir(parents=True)
        try:
            outcomes.append(train(grid[name], folder))
        finally:
            rlx(folder, "stop", "--all", "--yes", "--grace", "2")
            subprocess.run(["tmux", "-L", f"rlx-honest-{name}", "kill-server"], capture_output=True, check=False)
        print(name, json.dumps(outcomes[-1].expected), outcomes[-1].code, round(outcomes[-1].seconds), flush=True)
        if given.keep:
            keep(outcomes[-1], folder)
    print_table(outcomes)
    if not given.folder:
        shutil.rmtree(base)
    return int(is_broken(outcomes))


if __name__ == "__main__":
    sys.exit(main())
