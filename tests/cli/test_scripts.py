"""rlx launch --script: a bash script of the users' own, unchanged, under supervisor, log and verdict."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.evidence.run_configuration import read_printed_config
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.wording import settled

CONFIG, BASELINE = CASES / "printed-config/log", CASES / "logs/tiny-baseline/log"
TRL = CASES / "printed-config/trl-log"
NOISE = "sigma_start=0.05,sigma_end=0.0005,stages=5,steps=20"
TRAINING = f"cat {CONFIG} {BASELINE}"


def script(tmp_path: Path, text: str, name: str = "run_grpo.sh") -> str:
    path = tmp_path / name
    path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    return str(path)


def launched(file: str, *options: str) -> dict[str, Any]:
    run = rlx("launch", "--script", file, "--name", "mine", "--host", "local", *options).stdout.strip()
    rlx("wait", run, code=None)
    (row,) = json.loads(rlx("status", run, "--json").stdout)["runs"]
    return dict(row)


def ids(row: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in row["verdict"]["findings"]]


def test_it_runs_unchanged_and_is_held_to_the_configuration_that_it_prints(
    tmp_path: Path, wording: SnapshotAssertion
) -> None:
    (tmp_path / "work").mkdir()
    file = script(tmp_path, f'pwd\necho "$RLX_DEVICES$0"\n{TRAINING}')
    row = launched(file, "--arm", "control", "--seed", "3", "--workdir", str(tmp_path / "work"))
    assert (row["state"], row["arm"], row["seed"], row["steps_done"], row["steps_total"]) == (
        "finished", "control", 3, 20, 20,
    )  # fmt: skip
    assert (row["verdict"]["status"], ids(row)) == ("valid", ["RLX716"])
    assert "5 validations, " in row["verdict"]["sentence"] and row["verdict"]["sentence"] == wording
    run_dir = Path(row["run_dir"])
    assert (run_dir / "script/run_grpo.sh").read_bytes() == Path(file).read_bytes()
    assert (run_dir / "latest/log").read_text(encoding="utf-8").startswith(f"{tmp_path / 'work'}\n")
    assert read_printed_config(run_dir / "latest/console_config") == read_printed_config(CONFIG) != {}
    assert rlx("logs", row["run_id"], "--grep", "val-core", "--raw").stdout.count("val-core") >= 5


@pytest.mark.parametrize(
    ("edit", "options", "found"),
    [
        pytest.param("", "steps=20,every=5,items=100", "valid", id="as-expected"),
        pytest.param("", "steps=30,every=5,items=100", "RLX706", id="steps"),
        pytest.param("", "every=10", "RLX727", id="more-validations"),
        pytest.param("", "every=4", "RLX703", id="other-validations"),
        pytest.param("", "every=0", "RLX727", id="no-validation-expected"),
        pytest.param("", "items=1319", "RLX705", id="items"),
        pytest.param("s/'lr': 0.0002/'lr': 0.001/", "steps=20", "RLX646", id="another-learning-rate-was-composed"),
    ],
)
def test_what_a_launch_expects_and_what_was_composed_are_both_checked(
    tmp_path: Path, edit: str, options: str, found: str, wording: SnapshotAssertion
) -> None:
    row = launched(script(tmp_path, f"sed {shlex.quote(edit)} {CONFIG} {BASELINE}"), "--expect", options)
    verdict = row["verdict"]
    assert (found == verdict["status"]) if found == "valid" else (verdict["status"] != "valid" and found in ids(row))
    assert verdict["sentence"] == wording


def test_a_part_of_a_configuration_makes_no_run_valid(tmp_path: Path) -> None:
    part = "s/'algorithm': {/'algorithms': {/"
    row = launched(script(tmp_path, f"sed {shlex.quote(part)} {CONFIG} {BASELINE}"), "--expect", "steps=20")
    assert (row["verdict"]["status"], ids(row)) == ("unverified", ["RLX716"])


def test_what_trl_prints_of_a_training_is_read(tmp_path: Path, wording: SnapshotAssertion) -> None:
    """Its arguments in a line each, and metrics in lines without a step."""
    row = launched(script(tmp_path, f"cat {TRL}"), "--seed", "11", "--expect", "steps=6,every=3,items=100")
    assert (row["verdict"]["status"], row["steps_done"], row["steps_total"]) == ("valid", 6, 6)
    assert (row["last_validation"]["step"], ids(row)) == (6, ["RLX716", "RLX705"])
    assert row["verdict"]["sentence"] == wording
    other = launched(script(tmp_path, f"sed s/learning_rate=0.0002/learning_rate=0.0003/ {TRL}"), "--seed", "11")
    assert (other["verdict"]["status"], ids(other)[0]) == ("invalid", "RLX646")


def test_lines_of_a_python_that_does_not_flush_are_seen_before_it_ends(tmp_path: Path) -> None:
    go_on, lines = tmp_path / "go-on", BASELINE.read_text(encoding="utf-8").splitlines()
    steps = "\n".join(line for line in lines if "step:" in line)[:3000]
    program = tmp_path / "train.py"
    waits = f"import pathlib, time\nprint({steps!r})\nwhile not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.05)"
    program.write_text(waits, encoding="utf-8")
    file = script(tmp_path, f"{shlex.join([sys.executable, str(program)])}")
    run = rlx("launch", "--script", file, "--name", "mine", "--host", "local").stdout.strip()
    try:
        deadline = time.monotonic() + 240
        while "step:0" not in (printed := rlx("logs", run, "--raw").stdout) and time.monotonic() < deadline:
            time.sleep(0.1)
        (row,) = json.loads(rlx("status", run, "--json").stdout)["runs"]
    finally:
        go_on.touch()
        rlx("wait", run, code=None)
    assert "step:0" in printed
    assert row["state"] == "running"


def test_a_value_of_pythonunbuffered_that_the_user_sets_stays(tmp_path: Path) -> None:
    folder = Path(os.environ["RLX_CONFIG"])
    folder.mkdir(parents=True)
    (folder / "hosts.yaml").write_text('hosts: {local: {env: {PYTHONUNBUFFERED: ""}}}\n', encoding="utf-8")
    row = launched(script(tmp_path, 'echo "<$PYTHONUNBUFFERED>"'))
    assert (Path(row["run_dir"]) / "latest/log").read_text(encoding="utf-8") == "<>\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "state", "found"),
    [
        (f"head -c 200000 {BASELINE}; exit 3", "failed", "RLX801"),
        (f"cat {CONFIG}; sed 's/val-core/val-other/' {BASELINE}", "finished", "RLX707"),
    ],
)
def test_it_is_told_how_it_fell_short(tmp_path: Path, text: str, state: str, found: str) -> None:
    row = launched(script(tmp_path, text))
    assert (row["state"], row["verdict"]["status"]) == (state, "incomplete")
    assert found in ids(row)


def test_noise_that_was_asked_for_and_never_came(tmp_path: Path) -> None:
    row = launched(script(tmp_path, f"env | grep EXTERNAL; ls $RLX_RUN_DIR/payload; {TRAINING}"), "--aqn", NOISE)
    assert (row["verdict"]["status"], "RLX601" in ids(row), "RLX716" in ids(row)) == ("invalid", True, True)
    log = (Path(row["run_dir"]) / "latest/log").read_text(encoding="utf-8")
    assert log.startswith("VERL_USE_EXTERNAL_MODULES=rlx_verl_hook\naqn.json\n")


@pytest.mark.long
def test_a_comparison_names_the_noise_around_the_script_and_another_script(tmp_path: Path) -> None:
    control = launched(script(tmp_path, TRAINING), "--arm", "control")
    noisy = launched(script(tmp_path, f"# another\n{TRAINING}"), "--arm", "aqn", "--aqn", NOISE)
    shown = rlx("compare", control["run_id"], noisy["run_id"], code=14).stdout
    assert "aqn: null → sigma 0.05 to 0.0005 in 5 stages" in shown
    assert "script/run_grpo.sh" in shown


def test_lines_that_reach_beyond_the_run_are_shown_and_refused(tmp_path: Path) -> None:
    file = script(tmp_path, f"/usr/bin/pkill -f no-such-program-anywhere\n: docker exec -it c bash\n{TRAINING}")
    refused = rlx("launch", "--script", file, "--name", "mine", "--host", "local", code=2).stderr
    assert "RLX031" in refused and "line 2: /usr/bin/pkill -f no-such-program-anywhere" in refused
    assert "RLX032" in refused and "line 3: : docker exec -it c bash" in refused
    assert json.loads(rlx("status", "--json").stdout)["runs"] == []
    row = launched(file, "--accept-lines")
    assert row["state"] == "finished"
    assert {"RLX031", "RLX032", "RLX716"} == {*ids(row)} - {"RLX746"}, "what was accepted stays with the result"


def test_lines_that_are_kept_within_the_run_are_notes_and_the_verdict_names_them(tmp_path: Path) -> None:
    file = script(tmp_path, f"pkill -f no-such-program-anywhere\nkillall -q no-such\n{TRAINING}")
    words = ("launch", "--script", file, "--name", "mine", "--host", "local", "--dry-run", "--json")
    (finding,) = json.loads(rlx(*words).stdout)["findings"]
    assert (finding["id"], finding["severity"]) == ("RLX031", "note")
    assert "line 2: pkill -f no-such-program-anywhere; line 3: killall -q no-such" in finding["message"]
    row = launched(file)
    (kept,) = [finding["message"] for finding in row["verdict"]["findings"] if finding["id"] == "RLX746"]
    assert kept.count(": reached 0 of this run's processes") == 2
    log = (Path(row["run_dir"]) / "latest/log").read_text(encoding="utf-8")
    assert "rlx: pkill -f no-such-program-anywhere: reached 0 of this run's processes" in log


def test_accepted_lines_reach_no_process_of_others_where_root_has_a_namespace(tmp_path: Path) -> None:
    space = ("unshare", "--pid", "--fork", "--mount-proc", "true")
    if not shutil.which("unshare") or subprocess.run(space, capture_output=True, check=False).returncode:
        pytest.skip("a process namespace needs root, and a kernel that allows one")
    name = f"t{os.getpid()}"
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "", program)
    text = f"{program} 999 & own=$!\nuntil grep -q {name} /proc/$own/comm; do :; done\n/usr/bin/pkill -x {name}\n"
    with subprocess.Popen([program, "999"]) as stranger:
        file = script(tmp_path, f"{text}wait $own; echo code $? $1\n{program} 999 &\nexit 3")
        row = launched(file, "--accept-lines", "--", "a b")
        assert stranger.poll() is None
        stranger.kill()
    log = (Path(row["run_dir"]) / "latest/log").read_text(encoding="utf-8")
    assert "code 143 a b" in log and (row["state"], row["exit_code"]) == ("failed", 3)
    assert "RLX746" in ids(row)
    found = subprocess.run(["pgrep", "-x", name], capture_output=True, text=True, check=False)
    assert found.stdout == "", "what it left is ended"


@pytest.mark.parametrize(
    ("line", "found"),
    [("false && /a/ray job submit -- python x.py || /a/ray job submit", "RLX046"), ("true || ray start --head", "")],
)
def test_commands_of_ray_that_leave_the_run_are_refused(line: str, found: str, tmp_path: Path) -> None:
    file = script(tmp_path, f"{line}\n{TRAINING}")
    words = ("launch", "--script", file, "--name", "mine", "--host", "local", "--dry-run", "--json")
    findings = json.loads(rlx(*words, code=2 if found else 0).stdout)["findings"]
    assert [(each["id"], each["severity"]) for each in findings] == ([(found, "error")] if found else [])
    accepted = json.loads(rlx(*words, "--accept-lines").stdout)["findings"]
    assert [(each["id"], each["severity"]) for each in accepted] == ([(found, "note")] if found else [])


@pytest.mark.parametrize(
    ("loggers", "is_guarded"),
    [('["console","wandb"]', True), ("['console','swanlab']", True), ("[console,file]", False)],
)
def test_a_tracker_of_the_script_stays_and_may_fail(loggers: str, is_guarded: bool, tmp_path: Path) -> None:
    file = script(tmp_path, f"python -m verl.trainer.main_ppo trainer.logger={shlex.quote(loggers)}")
    words = ("launch", "--script", file, "--name", "mine", "--host", "local", "--dry-run", "--json")
    (plan,) = json.loads(rlx(*words).stdout)["plans"]
    assert plan["findings"] == []
    assert ("rlx_verl_track" in plan["env"].get("VERL_USE_EXTERNAL_MODULES", "")) is is_guarded
    assert any(each["path"] == "payload/rlx_verl_track.py" for each in plan["files"]) is is_guarded


def test_devices_that_only_the_entry_has_are_missed_by_doctor_and_launch(tmp_path: Path) -> None:
    folder = Path(os.environ["RLX_CONFIG"])
    folder.mkdir(parents=True)
    (folder / "hosts.yaml").write_text("hosts: {local: {device: {kind: npu, count: 8}}}\n", encoding="utf-8")
    assert "RLX507" in rlx("doctor", "local", code=None).stdout
    words = ("launch", "--script", script(tmp_path, "true"), "--name", "mine", "--host", "local")
    assert "RLX507" in rlx(*words, code=5).stderr


def test_a_plan_that_was_written_is_looked_through_again(tmp_path: Path) -> None:
    file = script(tmp_path, "/usr/bin/pkill -f no-such-program-anywhere")
    shown = ("launch", "--script", file, "--name", "mine", "--host", "local", "--dry-run", "--accept-lines")
    text = rlx(*shown).stdout
    assert "  /usr/bin/pkill -f no-such-program-anywhere\n" in text and 'bash "$RLX_RUN_DIR"/script/run_grpo.sh' in text
    assert "not known before the log" in text
    plan = tmp_path / "plan.json"
    plan.write_text(rlx(*shown, "--json").stdout, encoding="utf-8")
    assert "RLX031" in rlx("launch", "--plan", str(plan), code=2).stderr


@pytest.mark.long
def test_a_secret_goes_there_and_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_KEY", "s3cret-s3cret")
    row = launched(script(tmp_path, 'echo "${#WANDB_KEY} $WANDB_KEY"'), "--secret", "WANDB_KEY")
    assert (Path(row["run_dir"]) / "latest/log").read_text(encoding="utf-8") == "13 ***\n"


LITERAL = "0123456789abcdef0123456789abcdef01234567"
WITH_SECRETS = f"""set -x
export WANDB_API_KEY={LITERAL}
: python train.py --hf_token hunter2-hunter2 && ASCEND_RT_VISIBLE_DEVICES=0 OPENAI_API_KEY=hunter3-hunter3 true
echo "logged in with $WANDB_API_KEY"
"""
VALUES = (LITERAL, "hunter2-hunter2", "hunter3-hunter3")


def shown_values(text: str | bytes) -> list[str]:
    return [value for value in VALUES if value in (text if isinstance(text, str) else text.decode(errors="replace"))]


@pytest.mark.long
def test_the_secrets_in_a_script_are_not_shown_and_the_script_runs_unchanged(tmp_path: Path) -> None:
    file = script(tmp_path, f"{WITH_SECRETS}{TRAINING}")
    asked = ("launch", "--script", file, "--name", "mine", "--host", "local")
    planned = rlx(*asked, "--dry-run")
    assert shown_values(planned.stdout + planned.stderr) == []
    assert "RLX056" in planned.stdout and "line 3, 4;" in planned.stdout
    written = rlx(*asked, "--dry-run", "--json", code=2)
    assert "script/run_grpo.sh:3" in written.stderr and shown_values(written.stdout + written.stderr) == []
    row = launched(file)
    run_dir, name = Path(row["run_dir"]), row["run_id"]
    findings = json.loads((run_dir / "manifest.json").read_bytes())["plan"]["findings"]
    assert {"RLX033", "RLX056"} <= {finding["id"] for finding in findings}
    assert (run_dir / "script/run_grpo.sh").read_bytes() == Path(file).read_bytes()
    assert shown_values((run_dir / "manifest.json").read_bytes()) == []
    assert LITERAL in (run_dir / "latest/log").read_text(encoding="utf-8"), "it had the value"
    for command in (
        ("logs", name, "--grep", "hunter|WANDB"), ("logs", name, "--json"), ("status", name, "--json"),
        ("diagnose", name), ("diagnose", name, "--md"), ("report", "-o", str(tmp_path / "report.html")),
        ("report", "--bundle", str(tmp_path / "runs.tar.gz")),
    ):  # fmt: skip
        done = rlx(*command, code=None)
        # A value that stands in the log by itself is known to the bundle, which has the script beside it.
        text = (done.stdout + done.stderr).replace(f"logged in with {LITERAL}", "")
        assert (command, shown_values(text)) == (command, [])
    assert shown_values((tmp_path / "report.html").read_bytes()) == []
    with tarfile.open(tmp_path / "runs.tar.gz") as bundle:
        texts = {member.name: bundle.extractfile(member).read() for member in bundle if member.isfile()}
    assert any(name.endswith("/log") for name in texts)
    assert {name: found for name, text in texts.items() if (found := shown_values(text))} == {}
    rlx("judge", str(tmp_path / "runs.tar.gz"))


def test_a_script_without_secrets_is_not_warned_of(tmp_path: Path) -> None:
    files = "/data/hf_gsm8k_math_train/a.parquet"
    text = f"export TRAIN_FILES={files} HF_TOKEN=$HF_TOKEN\n: max_token_len=512 --token $HF_TOKEN"
    shown = ("launch", "--script", script(tmp_path, text), "--name", "mine", "--host", "local", "--dry-run")
    assert "RLX056" not in rlx(*shown).stdout
    assert json.loads(rlx(*shown, "--json").stdout)["plans"]


@pytest.mark.parametrize(
    ("text", "options", "fact"),
    [
        pytest.param("true", ("--aqn", "sigma_start=0.05,sigma_end=0.0005,stages=5"), "steps", id="no-steps"),
        pytest.param("true", ("--aqn", "sigma=0.05"), "sigma_start", id="no-such-key"),
        pytest.param(
            "true", ("--aqn", "sigma_start=0.05,sigma_end=0.5,stages=5,steps=20"), "sigma_start", id="rising-sigma"
        ),
        pytest.param("true", ("--aqn", "sigma_start=x,sigma_end=0.5,stages=5,steps=20"), "'x'", id="no-number"),
        pytest.param("python cli/train_grpo.py", ("--aqn", NOISE), "MindSpeed-RL", id="noise-for-mindspeed-rl"),
        pytest.param("python -m trl.scripts.grpo", ("--aqn", NOISE), "TRL", id="noise-for-trl"),
        pytest.param("export PYTHONPATH=/verl", ("--aqn", NOISE), "line 2", id="python-path"),
        pytest.param("VERL_USE_EXTERNAL_MODULES=mine python -m verl", ("--aqn", NOISE), "line 2", id="own-modules"),
        pytest.param("true", ("--arm", "a", "--arm", "a:LR=2"), "--arm a", id="one-arm-twice"),
        pytest.param("true", ("--set", "seed=1"), "--script", id="set"),
        pytest.param("true", ("--name", "a b"), "'a b'", id="name"),
        pytest.param("true", ("--expect", "steps=0"), "'0'", id="expect-no-step"),
        pytest.param("true", ("--expect", "rows=1"), "'rows=1'", id="expect-another-key"),
        pytest.param("true", ("--expect", "steps=10", "--aqn", NOISE), "20 steps", id="expect-other-steps-than-noise"),
        pytest.param("true", ("--devices", "4"), "local", id="devices"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, text: str, options: tuple[str, ...], fact: str, wording: SnapshotAssertion
) -> None:
    refused = rlx("launch", "--script", script(tmp_path, text), "--name", "mine", "--host", "local", *options, code=2)
    assert fact in refused.stderr and settled(refused.stderr, {str(tmp_path): "folder"}) == wording


def test_files_that_are_no_script(tmp_path: Path, wording: SnapshotAssertion) -> None:
    program = tmp_path / "train.py"
    program.write_text("#!/usr/bin/env python3\nprint()\n", encoding="utf-8")
    for name, file in {"python": program, "folder": tmp_path, "device": Path("/dev/zero")}.items():
        refused = rlx("launch", "--script", str(file), "--name", "mine", "--host", "local", code=2).stderr
        assert str(file) in refused and settled(refused, {str(tmp_path): "folder"}) == wording(name=name)
    assert "--script" in rlx("launch", "--name", "mine", code=2).stderr
    assert "--name" in rlx("launch", "--script", str(program), code=2).stderr


def test_the_stages_divide_the_steps_that_the_script_names(tmp_path: Path) -> None:
    file = script(tmp_path, "python -m verl.trainer.main_ppo trainer.total_training_steps=20")
    asked = ("--aqn", "sigma_start=0.05,sigma_end=0.0005,stages=5", "--dry-run")
    assert (
        "steps 17–20: sigma 0.0005" in rlx("launch", "--script", file, "--name", "n", "--host", "local", *asked).stdout
    )
