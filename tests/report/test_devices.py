"""What the devices did, in `rlx report`, `compare`, `status -v` and `plan`: recorded runs with samples beside them."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.evidence import read_evidence
from rlx.evidence.device_use import UNKNOWN, by_step, device_use, memory_gib, read_run_usage
from rlx.runs import RunPaths
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs
from tests.sampled import grows, on_npus, sample, seed_003

RECIPE = str(CASES / "memory/gspo-qwen3-8b-fsdp2/recipe.yaml")


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A recorded pair, sampled: the control as seed 003's guide says, the other one growing, with a neighbour."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    runs = place_runs(CASES / "pairs/tiny-cpu")
    found = {arm: next(run for run in runs if f"-{arm}-" in run.name) for arm in ("baseline", "aqn")}
    sample(found["baseline"], seed_003)
    sample(found["aqn"], grows, others=4096)
    return found


def test_the_profile_of_the_seed_is_told_by_phase(pair: dict[str, Path]) -> None:
    attempts = RunPaths(pair["baseline"]).attempts
    usage, evidence = read_run_usage(attempts), read_evidence(attempts)
    use = device_use(usage, evidence)
    assert use is not None and (use.peak, use.total, use.busy) == (55.0, 64.0, 70.0)
    peaks = {peak.phase: peak.gib for peak in use.phases}
    assert peaks["rollout"] == 30.0 and peaks["actor update"] == 55.0
    assert peaks["log-prob"] == 30.0
    assert next(iter(peaks)) == "rollout" and list(peaks)[-1] == UNKNOWN
    # It swings within each step, and grows over none.
    assert use.growth == "" and use.neighbours == ""
    curve = by_step(usage, memory_gib)
    assert set(curve.values) == {55.0} and list(curve.steps) == list(range(1, 21))


def test_growth_is_told_with_its_steps(pair: dict[str, Path], wording: SnapshotAssertion) -> None:
    attempts = RunPaths(pair["aqn"]).attempts
    use = device_use(read_run_usage(attempts), read_evidence(attempts))
    assert use is not None
    low, high, first, last = map(float, re.findall(r"[\d.]+", use.growth))
    assert (low, high) == (30.0, 55.0)
    assert first <= 5 and 11 <= last <= 14
    assert "4.0 GiB of device 0" in use.neighbours and use.neighbours == wording


def growth_of(run: Path) -> str:
    attempts = RunPaths(run).attempts
    use = device_use(read_run_usage(attempts), read_evidence(attempts))
    assert use is not None
    return use.growth


@pytest.mark.parametrize(
    "lines", ["", "at 5\nat x own=1,2\n", "at 1795000000 own=9,9,1 d0=7,8\nat 1795", "\x00\xff" * 500]
)
def test_a_damaged_file_says_nothing_and_breaks_nothing(pair: dict[str, Path], lines: str) -> None:
    attempts = RunPaths(pair["aqn"]).attempts
    (attempts[0] / "usage").write_text(lines, encoding="utf-8")
    assert device_use(read_run_usage(attempts), read_evidence(attempts)) is None


@pytest.mark.long
def test_page_and_comparison_show_it_beside_the_estimate_and_judge_nothing_by_it(
    pair: dict[str, Path], tmp_path: Path
) -> None:
    recipe = json.loads(rlx("plan", RECIPE, "--json").stdout)["plans"][0]["recipe"]
    without = {arm: (run / "attempts/1/usage").read_text(encoding="utf-8") for arm, run in pair.items()}
    for run in pair.values():
        on_npus(run, recipe)
        (run / "attempts/1/usage").unlink()
    before = json.loads(rlx("compare", "baseline", "aqn", "--json").stdout)
    assert "devices" not in before
    for arm, run in pair.items():
        (run / "attempts/1/usage").write_text(without[arm], encoding="utf-8")
    compared = json.loads(rlx("compare", "baseline", "aqn", "--json").stdout)
    devices = compared.pop("devices")
    assert compared == before
    assert [each["label"] for each in devices] == ["baseline", "aqn"]
    text = rlx("compare", "baseline", "aqn", "--html", "report.html").stdout
    assert "55.0 of 64.0 GiB" in text
    # 19.8 to 30.3 GiB that torch holds, the runtime of the processes, and what the driver keeps.
    assert re.search(r"rollout 30\.0 \(46\.\d–47\.\d\), .*actor update 55\.0 \(23\.\d–3\d\.\d\)", text)
    growth = growth_of(pair["aqn"])
    assert growth in text
    page = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    section = page[page.index('<section id="devices"') : page.index('<section id="speed"')]
    assert growth in section and "4.0 GiB of device 0" in section
    assert "sampled: memory " in page
    plotted = rlx("compare", "baseline", "aqn", "--plot", "-", "--metric", "sampled: memory *").stdout
    assert "sampled: memory " in plotted


def test_a_plan_says_what_the_devices_of_earlier_runs_showed(pair: dict[str, Path]) -> None:
    recipe = json.loads(rlx("plan", RECIPE, "--json").stdout)["plans"][0]["recipe"]
    for run in pair.values():
        on_npus(run, recipe)
    told = json.loads(rlx("plan", RECIPE, "--json").stdout)["memory"][0]["earlier_runs"]
    assert [run["sampled_gib"] for run in told] == [55.0, 55.0]
    assert "55.0" in rlx("plan", "-v", RECIPE).stdout


@pytest.mark.usefixtures("pair")
def test_status_says_nothing_of_devices_that_a_run_has_no_more() -> None:
    assert "device 0" not in rlx("status", "--all", "-v").stdout
    rows = json.loads(rlx("status", "--all", "--json").stdout)["runs"]
    assert [(row["sample"], row["sample_age"]) for row in rows] == [(None, None)] * 2
