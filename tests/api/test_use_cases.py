"""The public functions on real runs: what they return, what they raise, and that they print nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx
from rlx.api.planning import PlannedRun, Plans
from rlx.compare.excluded_runs import ExcludedBy
from rlx.errors import ExitCode
from rlx.findings import finding_row
from rlx.model import RunState
from rlx.runs import RunRef
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs
from tests.runs.toys import FOREVER, ended, start, start_one, toy_plan, until
from tests.wording import settled

RECORDED = CASES / "six-runs"


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Nothing is printed, whatever a test does."""
    yield
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    return place_runs(RECORDED)


def refused(error: pytest.ExceptionInfo[rlx.RlxError], code: ExitCode = ExitCode.USAGE) -> str:
    """The message of an error that also says how to mend it."""
    assert error.value.hint
    assert error.value.exit_code is code
    return error.value.message


# Recipes


def test_validate_tells_everything_and_raises_nothing(tmp_path: Path) -> None:
    assert rlx.validate("tiny-cpu").is_valid()
    broken = tmp_path / "broken.yaml"
    broken.write_text("version: 1\nname: x\nnonsense: 1\n", encoding="utf-8")
    found = rlx.validate(broken)
    assert not found.is_valid()
    assert any("nonsense" in each.finding.message for each in found.findings)
    assert rlx.validate(tmp_path / "nowhere.yaml").findings[0].finding.id == "RLX002"


def test_a_loaded_recipe_is_planned_as_its_name_is() -> None:
    by_name, loaded = rlx.plan("tiny-cpu", seeds=[1, 2]), rlx.plan(rlx.load_recipe("tiny-cpu"), seeds=[1, 2])
    assert [plan.run_name for plan in loaded.plans] == [plan.run_name for plan in by_name.plans]
    assert len(loaded.plans) == 4


def test_options_come_before_the_recipe_is_loaded(wording: SnapshotAssertion) -> None:
    recipe = rlx.load_recipe("tiny-cpu")
    with pytest.raises(rlx.UsageError) as error:
        rlx.noise_schedule(recipe, sets=["seed=2"])
    assert settled(refused(error), {str(REPOSITORY): "repository"}) == wording


def test_explain_knows_ids_in_any_case_and_the_nearest() -> None:
    assert rlx.explain("rlx104") == rlx.explain("RLX104")
    # What rlx diagnose prints of a log is explained, too.
    assert rlx.explain("RLX804").what == finding_row("RLX804").en.title
    with pytest.raises(rlx.UsageError) as error:
        rlx.explain("RLX1044")
    assert "RLX1044" in refused(error)


def test_the_noise_of_an_arm(wording: SnapshotAssertion) -> None:
    (arm,) = rlx.noise_schedule("tiny-cpu")
    assert (arm.name, len(arm.noise.sigmas), arm.noisy_steps) == ("aqn", 20, 16)
    with pytest.raises(rlx.UsageError) as error:
        rlx.noise_schedule("tiny-cpu", ["baseline"])
    assert "baseline" in (said := refused(error)) and said == wording


def test_norm_weights_of_a_folder_without_any(tmp_path: Path, wording: SnapshotAssertion) -> None:
    with pytest.raises(rlx.RlxError) as error:
        rlx.norm_weights(tmp_path)
    assert settled(refused(error, ExitCode.ERROR), {str(tmp_path): "folder"}) == wording


def test_layouts_have_the_recipe_itself_among_them(wording: SnapshotAssertion) -> None:
    listed = rlx.layouts("qwen2.5-1.5b-gsm8k-npu")
    assert any(layout.job == listed.job for layout in listed.found.possible)
    with pytest.raises(rlx.UsageError) as error:
        rlx.layouts("tiny-cpu")
    assert refused(error) == wording


def test_migrate_writes_a_new_file_only(tmp_path: Path, wording: SnapshotAssertion) -> None:
    target = tmp_path / "megatron.yaml"
    result = rlx.migrate("qwen2.5-1.5b-gsm8k-npu", target=target)
    assert result.is_valid and target.read_text(encoding="utf-8") == result.text
    assert rlx.load_recipe(target).arms
    with pytest.raises(rlx.UsageError) as error:
        rlx.migrate("qwen2.5-1.5b-gsm8k-npu", target=target)
    assert settled(refused(error), {str(target): "target"}) == wording


def test_a_recipe_that_breaks_a_rule_is_not_rehearsed() -> None:
    with pytest.raises(rlx.RlxError) as error:
        rlx.rehearse("qwen2.5-1.5b-gsm8k-npu", sets=["train.micro_batch_size=3"])
    assert "RLX104" in refused(error, ExitCode.PREFLIGHT_FAILED)


# Runs


def test_a_launch_to_its_end() -> None:
    plans = Plans(tuple(PlannedRun(toy_plan("echo hello\n", arm=arm)) for arm in ("baseline", "aqn")))
    runs = rlx.launch(plans)
    assert [run.arm for run in runs] == ["baseline", "aqn"] and len(runs) == 2
    told: list[str] = []
    rows = rlx.wait(runs, timeout_s=60, tell=told.append)
    assert [row.state for row in rows] == [RunState.FINISHED] * 2
    assert rlx.find_runs() == rlx.find_runs(["baseline", "aqn"]) == tuple(runs)
    lines = [(run.arm, line) for run, line in rlx.logs(runs, grep="hello")]
    assert lines == [("baseline", b"hello"), ("aqn", b"hello")]


def test_stop_and_the_time_that_is_up(wording: SnapshotAssertion) -> None:
    run = start_one(FOREVER)
    with pytest.raises(rlx.RlxError) as error:
        rlx.wait(run, timeout_s=0)
    assert settled(refused(error, ExitCode.NOT_FINISHED), {run.run_id: "run"}) == wording
    result = rlx.stop(run, grace_s=1)
    assert result.stopped[run.run_id].ended and not result.stopped[run.run_id].left and not result.failures
    assert [row.state for row in rlx.status(run)] == [RunState.STOPPED]


def test_a_follow_ends_with_its_run() -> None:
    (run,) = start(toy_plan("for i in 1 2 3; do echo line $i; sleep 0.1; done\n"))
    assert [line for _, line in rlx.logs(run, follow=True)] == [b"line 1", b"line 2", b"line 3"]


def test_no_runs_at_all(wording: SnapshotAssertion) -> None:
    assert rlx.status() == []
    assert rlx.find_runs([]) == ()
    for ask in (rlx.find_runs, rlx.wait, rlx.logs, lambda: rlx.judge("x"), lambda: rlx.stop("x")):
        with pytest.raises(rlx.NoSuchRun) as error:
            ask()
        assert refused(error, ExitCode.NO_SUCH_RUN) == wording(name="no runs")


def test_choices_that_exclude_each_other(recorded: list[Path]) -> None:
    for ask in (
        lambda: rlx.status("aqn", everything=True),
        lambda: rlx.logs("aqn", follow=True, since_s=60),
        lambda: rlx.logs("aqn", fixed=True),
        lambda: rlx.logs("aqn", grep="("),
        lambda: rlx.compare("aqn", "aqn"),
        lambda: rlx.judge("aqn"),
        lambda: rlx.diagnose("aqn"),
    ):
        with pytest.raises(rlx.UsageError) as error:
            ask()
        refused(error)


def test_files_are_fetched_into_a_folder_each(tmp_path: Path) -> None:
    (run,) = start(toy_plan("echo hello\n"))
    ended(run)
    files = rlx.pull(run, tmp_path / "pulled")
    assert all(file.is_good for file in files[run.run_id])
    (log,) = (tmp_path / "pulled" / run.run_id / "attempts").glob("*/log")
    assert log.read_text(encoding="utf-8") == "hello\n"


# Results


def test_a_verdict(recorded: list[Path]) -> None:
    judged = rlx.judge("aqn-s1")
    assert (judged.verdict.status, judged.verdict.findings) == ("valid", ())
    assert judged == rlx.judge(rlx.find_runs("aqn-s1")[0])


def test_arms_are_named_or_given(recorded: list[Path], wording: SnapshotAssertion) -> None:
    by_name = rlx.compare("baseline", "aqn")
    given = rlx.compare(rlx.find_runs("baseline"), rlx.find_runs("aqn"))
    assert by_name.sentences == given.sentences and by_name.reportable
    assert [arm.arm for arm in by_name.comparison.arms] == ["baseline", "aqn"]
    assert by_name.sentences == wording


def test_a_comparison_has_the_runs_that_were_left_out(recorded: list[Path]) -> None:
    compared = rlx.compare("baseline", "aqn", seeds=[1, 2])
    assert [(run.arm, run.seed, run.by) for run in compared.left_out] == [
        ("aqn", 3, ExcludedBy.COMMAND_LINE),
        ("baseline", 3, ExcludedBy.COMMAND_LINE),
    ]


def test_a_report_is_replaced_and_nothing_else(
    recorded: list[Path], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    page = tmp_path / "page.html"
    assert rlx.report(page) == page
    assert rlx.report(page, "baseline", "aqn") == page and "<html" in page.read_text(encoding="utf-8")
    page.write_text("somebody's own", encoding="utf-8")
    with pytest.raises(rlx.RlxError) as error:
        rlx.report(page)
    assert settled(refused(error, ExitCode.ERROR), {str(page): "page"}) == wording
    assert page.read_text(encoding="utf-8") == "somebody's own"


def test_a_log_without_a_run(recorded: list[Path], tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = tmp_path / "old.log"
    shutil.copy(recorded[0] / "attempts/1/log", log)
    assert rlx.read_log(log).last_step == 20
    assert rlx.diagnose(log).row is None
    assert rlx.diagnose("old.log").diagnosis.cause is None
    taken = rlx.import_logs(log, "old", arm="baseline")
    assert isinstance(taken.ref, RunRef) and rlx.status(taken.ref)[0].steps_done == 20
    with pytest.raises(rlx.UsageError) as error:
        rlx.import_logs(log, "old", arm="baseline")
    assert settled(refused(error), {str(log): "log", taken.ref.run_id: "run"}) == wording


def test_logs_that_are_not_there(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.log"
    for ask in (rlx.read_log, rlx.diagnose):
        with pytest.raises(rlx.RlxError) as error:
            ask(nowhere)
        assert "nowhere.log" in error.value.message and error.value.hint


def test_a_run_started_by_hand(tmp_path: Path) -> None:
    log = tmp_path / "hand.log"
    script = "for step in 1 2; do echo step:$step - critic/score/mean:0.5; read next; done"
    with log.open("w", encoding="utf-8") as out:
        training = subprocess.Popen(
            ["bash", "-c", script], stdin=subprocess.PIPE, stdout=out, text=True, encoding="utf-8"
        )
    until(lambda: "step:1" in log.read_text(encoding="utf-8"), "the training writes")
    run = rlx.adopt(str(log), "hand")
    assert rlx.status(run)[0].steps_done == 1
    assert training.stdin is not None
    training.stdin.write("\n")
    training.stdin.flush()
    until(lambda: rlx.status(run)[0].steps_done == 2, "the new step is seen")
    training.communicate("\n")
