"""`rlx export`: what was written is read back by each tracker's own reader, and is what `rlx metrics` reads."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import rlx as front_door
from rlx.errors import RlxError, UsageError
from rlx.trackers import TRACKERS, ExportedRun, MetricPoint, tracker_of
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs
from tests.trackers.readers import READERS, installed

TAGS = ("verdict", "arm", "seed", "experiment", "launch", "run", "state")


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded pair, whose treatment has lost every trace of its noise: it is invalid."""
    monkeypatch.chdir(tmp_path)
    for run in place_runs(CASES / "pairs" / "tiny-cpu"):
        if "-aqn-" in run.name:
            _take_noise_out(run / "attempts/1")


def _take_noise_out(attempt: Path) -> None:
    for events in attempt.glob("events/*"):
        events.unlink()
    lines = (attempt / "log").read_text(encoding="utf-8").splitlines(keepends=True)
    (attempt / "log").write_text("".join(line for line in lines if "AQN" not in line), encoding="utf-8")


def values_of(runs: list[dict[str, Any]]) -> dict[str, dict[str, dict[int, float]]]:
    """What `rlx metrics --json` said, by run id."""
    return {
        run["run_id"]: {name: {step: value for step, value in values} for name, values in run["metrics"].items()}
        for run in runs
    }


def own(name: str) -> Any:
    missing = not installed(name)
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"{name} is not installed"))


@pytest.mark.long
@pytest.mark.parametrize("tracker", [*map(own, TRACKERS)])
def test_what_was_written_is_what_was_logged(tracker: str, tmp_path: Path, pair: None) -> None:
    answer = json.loads(rlx("export", "--to", tracker, "--out", "out", "--json", timeout_s=120).stdout)
    logged = values_of(json.loads(rlx("metrics", "baseline,aqn", "--json").stdout)["runs"])
    read = READERS[tracker](tmp_path / "out", "tiny-cpu")
    assert set(read) == {run["name"] for run in answer["runs"]} == {"baseline-s1", "aqn-s1 [invalid RLX601]"}
    for run in answer["runs"]:
        tags, series = read[run["name"]]
        assert {name: tags[name] for name in TAGS} == {name: run["tags"][name] for name in TAGS}
        assert (tags["verdict"], tags["arm"]) == (("invalid", "aqn") if "aqn" in run["name"] else ("valid", "baseline"))
        assert run["values"] == sum(map(len, series.values())) > 1000
        for name, values in logged[run["run_id"]].items():
            assert series[name] == pytest.approx(values, rel=1e-6), name


def test_the_trackers_are_those_that_are_tested() -> None:
    assert set(TRACKERS) == set(READERS)


def test_numbers_that_are_none_and_huge_steps_reach_tensorboard(tmp_path: Path) -> None:
    values = {"nan": math.nan, "inf": math.inf, "large": 1e300, "带噪声": -0.0}
    run = ExportedRun(
        "a/..", "p", {"verdict": "valid"}, {}, "", [MetricPoint(-1, 1.0, {"x": 1.0}), MetricPoint(2**40, 2.0, values)]
    )
    tracker_of("tensorboard").write([run], tmp_path)
    ((name, (tags, series)),) = READERS["tensorboard"](tmp_path, "p").items()
    assert (name, tags["verdict"]) == ("a_..", "valid")
    assert {step for points in series.values() for step in points} == {-1, 2**40}
    assert math.isnan(series["nan"][2**40])
    assert series["inf"][2**40] == series["large"][2**40] == math.inf
    assert series["带噪声"] == {2**40: 0.0}


def test_checksums_are_those_of_the_standard() -> None:
    """Source: RFC 3720, B.4; TensorBoard's reader checks the records themselves."""
    from rlx.trackers.tensorboard import crc32c

    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(bytes(range(32))) == 0x46DD794E


def test_two_runs_of_one_name_stay_two(pair: None) -> None:
    logs = [CASES / f"logs/{name}/log" for name in ("tiny-baseline", "probed-baseline")]
    ids = [json.loads(rlx("import", str(log), "--name", "old", "--json").stdout)["run_id"] for log in logs]
    names = [run.name for run in front_door.export(ids, to="tensorboard", folder="out", project="mine").runs]
    assert [name.partition(" [unverified RLX71")[0] for name in names] == ids
    assert sorted(path.name for path in Path("out/mine").iterdir()) == sorted(names)


def test_refusals(pair: None, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("there").mkdir()
    for named, folder, project, message in (
        ("aim", "out", None, "rlx knows no such tracker"),
        ("tensorboard", "there", None, "there is there already"),
        ("tensorboard", "none/out", None, "there is no such folder"),
        ("tensorboard", "out", "../x", "some trackers make a file name of it"),
    ):
        with pytest.raises(RlxError, match=message):
            front_door.export(to=named, folder=folder, project=project)
        assert not Path("out").exists()
    with pytest.raises(UsageError, match="tensorboard, wandb, swanlab"):
        try:
            front_door.export(to="aim")
        except UsageError as error:
            raise UsageError(error.hint) from None


@pytest.mark.parametrize("tracker", [name for name in TRACKERS if name != "tensorboard"])
def test_a_package_that_is_not_there_is_named_with_its_install_line(
    tracker: str, pair: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with the package's name, as trackers make them, is no package."""
    import importlib.util

    missing = tracker_of(tracker).PACKAGES[0]
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(RlxError, match=f"takes {missing}.* not installed") as error:
        front_door.export(to=tracker, folder="out")
    assert f"[{tracker}]" in error.value.hint or missing in error.value.hint
    assert not Path("out").exists()


def test_a_package_that_fails_says_its_last_words_and_leaves_nothing(
    pair: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `wandb` of this folder is not what rlx runs; one of PYTHONPATH is what Python would take."""
    broken = tmp_path / "elsewhere"
    broken.mkdir()
    (broken / "wandb.py").write_text("raise SystemExit('no wandb today')", encoding="utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit('not from here')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    monkeypatch.syspath_prepend(str(broken))
    with pytest.raises(RlxError, match=r"wandb.*: no wandb today"):
        front_door.export(to="wandb", folder="out")
    assert not Path("out").exists()
