"""rlx run: a script or a command line with variables, arguments, arms and seeds of its own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import rlx
from tests.conftest import CASES

PRINTS = """
printf '<%s>' "$@"
echo " LR=${LR-unset} $RLX_ARM $RLX_SEED $RLX_RUN_ID $RLX_RUN_DIR $PYTHONUNBUFFERED"
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.sh"
    path.write_text(PRINTS, encoding="utf-8")
    return str(path)


def finished(*words: str) -> list[dict[str, Any]]:
    """The rows of the runs that this starts, in their order, each with its log."""
    launched = json.loads(rlx("run", "--host", "local", "--json", *words).stdout)["runs"]
    ids = [run["run_id"] for run in launched]
    rlx("wait", *ids, code=None)
    rows = {row["run_id"]: row for row in json.loads(rlx("status", *ids, "--json").stdout)["runs"]}
    logs = {run_id: Path(row["run_dir"], "latest/log").read_text(encoding="utf-8") for run_id, row in rows.items()}
    assert {row["state"] for row in rows.values()} == {"finished"}, logs
    return [{**rows[run_id], "log": logs[run_id]} for run_id in ids]


def planned(*words: str) -> list[dict[str, Any]]:
    return list(json.loads(rlx("run", "--host", "local", "--dry-run", "--json", *words).stdout)["plans"])


def notes(*words: str, findings: str = "RLX060") -> list[str]:
    found = json.loads(rlx("run", "--host", "local", "--dry-run", "--json", *words).stdout)["findings"]
    return [each["message"] + each["fix"] for each in found if each["id"] == findings]


HARD = ("a  b", "it's", "$HOME", "*", '"', "", "--lr", "new\nline")


def test_arms_and_seeds_reach_the_script_in_one_call(script: str) -> None:
    arms = ("--arm", "base", "--arm", "hot:LR='4e-4 x' --more 'two words'")
    rows = finished(script, *arms, "--seed", "3,5", "--", *HARD)
    assert [(row["name"], row["arm"], row["seed"]) for row in rows] == [
        ("train", arm, seed) for seed in (3, 5) for arm in ("base", "hot")
    ]
    for row in rows:
        more, rate = ((), "unset") if row["arm"] == "base" else (("--more", "two words"), "4e-4 x")
        words = "".join(f"<{word}>" for word in (*HARD, *more))
        assert row["log"] == (f"{words} LR={rate} {row['arm']} {row['seed']} {row['run_id']} {row['run_dir']} 1\n"), (
            row["arm"]
        )


def test_a_command_line_needs_no_script(tmp_path: Path) -> None:
    (row,) = finished(
        "--workdir", str(tmp_path), "--env", "LR=1 2", "--", "bash", "-c", 'pwd; echo "$LR$1"', "x", *HARD
    )
    assert row["log"] == f"{tmp_path}\n1 2{HARD[0]}\n"
    assert row["name"] == "bash"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("-- python a/train.py --lr 1"), "train"),
        (("-- torchrun -m pkg.train x"), "pkg.train"),
        (("--name mine -- python train.py"), "mine"),
    ],
)
def test_the_name_of_a_command_line(words: str, name: str) -> None:
    assert [plan["name"] for plan in planned(*words.split())] == [name]


def test_the_variables_of_a_file_come_before_those_of_the_line(script: str, tmp_path: Path) -> None:
    file = tmp_path / "variables"
    file.write_text("# rates\nexport LR='1 2'\n\nONE=1\n", encoding="utf-8")
    (plan,) = planned(script, "--env-file", str(file), "--env", "ONE=2", "--env", "NONE=")
    assert {name: plan["env"][name] for name in ("LR", "ONE", "NONE")} == {"LR": "1 2", "ONE": "2", "NONE": ""}
    assert {*plan["treatment"]} == {"env.LR", "env.ONE", "env.NONE"}
    file.write_text("LR 1\n", encoding="utf-8")
    assert f"{file}:1" in rlx("run", script, "--env-file", str(file), code=2).stderr


def test_plans_hold_arguments_and_variables_and_launch_again(script: str, tmp_path: Path) -> None:
    words = ("run", script, "--host", "local", "--arm", "a", "--arm", "b:LR=2 x", "--dry-run", "--json", "--", "y z")
    written = tmp_path / "plans.json"
    written.write_text(rlx(*words).stdout, encoding="utf-8")
    plans = json.loads(written.read_text(encoding="utf-8"))["plans"]
    assert [(plan["command"], plan["control"]) for plan in plans] == [
        (["bash", "script/train.sh", "y z"], "a"),
        (["bash", "script/train.sh", "y z", "x"], "a"),
    ]
    ids = rlx("launch", "--plan", str(written)).stdout.split()
    rlx("wait", *ids, code=None)
    rows = json.loads(rlx("status", *ids, "--json").stdout)["runs"]
    logs = [Path(row["run_dir"], "latest/log").read_text(encoding="utf-8") for row in rows]
    assert [log.partition(" b" if "LR=2" in log else " a")[0] for log in logs] == ["<y z> LR=unset", "<y z><x> LR=2"]


def test_what_the_script_reads_of_this_environment_and_does_not_get_is_one_note(
    script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reads = tmp_path / "reads.sh"
    reads.write_text("A=1\necho $A $B ${C:-1} $D $HOME\nexport TEAM_TOKEN\nD=2 echo\nB=3\n", encoding="utf-8")
    for name in "ABC":
        monkeypatch.setenv(name, "here")
    assert [word for note in notes(str(reads)) for word in note.split(":")[0].split()[-3:]] == ["reads", "B,", "C"]
    assert "--env B" in notes(str(reads))[0]
    monkeypatch.setenv("TEAM_TOKEN", "abcdefgh12345")
    assert "--secret TEAM_TOKEN" in notes(str(reads), "--env", "B", "--env", "C=2")[0]
    assert notes(str(reads), "--env", "B", "--env", "C=2", "--secret", "TEAM_TOKEN") == []
    monkeypatch.setenv("LR", "1e-3")
    assert len(notes(script, "--arm", "a", "--arm", "b:LR=2", "--seed", "1,2")) == 1
    assert notes(script, "--arm", "a:LR=1", "--arm", "b:LR=2") == []
    shown = rlx("run", script, "--host", "local").stderr
    assert shown.count("RLX060") == 1 and "--env LR" in shown


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ("--env HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", ("--secret HF_TOKEN",)),
        ("--arm a:DB_PASSWORD=hunter2", ("--arm a", "--secret DB_PASSWORD")),
        ("-- --api-key abcdefgh12345678", ("--secret NAME",)),
        ("--env RLX_SEED=3", ("RLX_SEED",)),
        ("--env CUDA_VISIBLE_DEVICES=0", ("--devices",)),
        ("--env 1A=3", ("1A",)),
        ("--env NOT_SET_ANYWHERE", ("NOT_SET_ANYWHERE",)),
        ("--arm a,b:LR=1", ("a,b",)),
        ("--arm a:'x", ("closing quotation",)),
        ("more words", ("more", "-- more words")),
        ("--set seed=1", ("--set",)),
    ],
)
def test_what_is_refused_before_anything_starts(script: str, options: str, facts: tuple[str, ...]) -> None:
    words = options.split() if "'" in options else shlex.split(options)
    refused = rlx("run", script, "--host", "local", *words, code=2).stderr
    assert [fact for fact in facts if fact not in refused] == [], refused
    assert "hunter2" not in refused and "abcdefgh" not in refused
    assert json.loads(rlx("status", "--json").stdout)["runs"] == []


def test_a_variable_never_hides_one_of_the_process(script: str) -> None:
    (plan,) = planned(script, "--env", "LR=1; echo $(id) `id` 'x'")
    launch = next(file["content"] for file in plan["files"] if file["path"] == "launch.sh")
    assert "export LR='1; echo $(id) `id` '\"'\"'x'\"'\"''" in launch


@pytest.mark.parametrize(
    ("name", "text", "facts"),
    [
        ("train.sh", "echo", ("rlx run", "rlx init --from")),
        ("train", "#!/usr/bin/env bash\necho", ("rlx run",)),
        ("train.py", "print()", ("rlx run -- python",)),
        ("train.ipynb", "{}", ("nbconvert", "rlx run -- python train.py")),
    ],
)
def test_another_file_in_the_place_of_a_recipe_gets_the_right_hint(
    tmp_path: Path, name: str, text: str, facts: tuple[str, ...]
) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    for command in ("launch", "validate", "plan"):
        refused = rlx(command, str(file), code=2)
        assert [fact for fact in facts if fact not in refused.stdout + refused.stderr] == [], refused


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("train.py", "print()", "rlx run --name train"),
        ("train.ipynb", "{}", "nbconvert"),
        ("train.pl", "#!/usr/bin/perl\n", "perl"),
        ("gone.sh", None, "gone.sh"),
        ("gone.yaml", None, "gone.yaml"),
    ],
)
def test_another_file_in_the_place_of_a_script_gets_the_right_hint(
    tmp_path: Path, name: str, text: str | None, fact: str
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text, encoding="utf-8")
    assert fact in rlx("run", str(file), "--host", "local", code=2).stderr


def test_run_takes_a_recipe_as_launch_does() -> None:
    shown = [rlx(command, "tiny-cpu", "--dry-run", "--seed", "1,2", code=None) for command in ("launch", "run")]
    assert shown[0].stdout == shown[1].stdout != ""
    assert "--script" in rlx("run", "tiny-cpu", "--env", "A=1", "--dry-run", code=2).stderr


def test_a_trainer_that_rlx_does_not_know_is_called_so(script: str, tmp_path: Path) -> None:
    assert "unknown trainer, 1 × cpu" in rlx("run", script, "--host", "local", "--dry-run").stdout
    assert [plan["backend"] for plan in planned("--", "python", "-m", "verl.trainer.main_ppo")] == ["verl"]
    slime = tmp_path / "slime.sh"
    slime.write_text("python3 train.py --rollout-num-gpus 8 --advantage-estimator grpo\n", encoding="utf-8")
    assert [plan["backend"] for plan in planned(str(slime))] == [""]


def test_launches_of_one_name_are_one_group_of_which_the_newest_run_of_each_seed_counts(script: str) -> None:
    first = finished(script, "--name", "g", "--arm", "base", "--seed", "1,2")
    (other,) = finished(script, "--name", "other", "--arm", "hot")
    hot = finished(script, "--name", "g", "--arm", "hot:LR=4e-4", "--seed", "1,2")
    (again,) = finished(script, "--name", "g", "--arm", "hot:LR=5e-4", "--seed", "2")
    group = [*(row["run_id"] for row in first), hot[0]["run_id"], again["run_id"]]

    def shown(*words: str) -> list[str]:
        return [row["run_id"] for row in json.loads(rlx("status", *words, "--json").stdout)["runs"]]

    assert shown() == shown("g") == group
    assert shown("hot") == [hot[0]["run_id"], again["run_id"]]
    assert shown("other") == [other["run_id"]]
    assert shown(hot[0]["launch_id"]) == [row["run_id"] for row in hot], "a launch has its own id all the same"
    text = rlx("status").stdout
    assert text.count("launch ") == 1 and "and 2 before" in text
    rlx("hosts", "reindex", "-y", code=None)
    assert shown() == group, "files of the runs say so, too"


CONFIG, LOG = (str(CASES / name) for name in ("printed-config/log", "logs/tiny-baseline/log"))


def judged(tmp_path: Path, more: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """What a comparison of two arms says whose rate is a variable, launched one after the other."""
    path = tmp_path / "verl.sh"
    score = "s#\\(acc/mean@1:\\)0.9#\\10.8#"
    path.write_text(
        f"sed \"s/'lr': 0.0002/'lr': ${{LR:-0.0002}}/; $MORE\" {CONFIG}\n"
        f'if [ "$RLX_ARM" = hot ]; then sed "{score}" {LOG}; else cat {LOG}; fi\n',
        encoding="utf-8",
    )
    finished(str(path), "--arm", "base")
    finished(str(path), "--arm", "hot", "--env", "LR=4e-4", "--env", f"MORE={more}")
    shown = json.loads(rlx("compare", "base", "hot", "--json", "--allow-unverified", code=None).stdout)
    (contrast,) = shown["contrasts"]
    return {item["key"]: item for item in contrast["differences"]}, contrast


@pytest.mark.long
def test_what_was_given_to_the_script_is_what_differs(tmp_path: Path) -> None:
    found, contrast = judged(tmp_path)
    key = "config actor_rollout_ref.actor.optim.lr"
    assert {(name, each["control"], each["treatment"], each["declared"]) for name, each in found.items()} >= {
        ("env.LR", None, "4e-4", True),
        (key, 0.0002, 0.0004, True),
    }
    assert not {"RLX718", "RLX932"} & {each["id"] for each in contrast["findings"]}
    bundle = str(tmp_path / "runs.tar.gz")
    rlx("report", "verl", "-o", str(tmp_path / "page.html"), "--bundle", bundle, code=None)
    assert all(f"verl-{arm}-s1-" in rlx("verify", bundle).stdout for arm in ("base", "hot"))


@pytest.mark.long
def test_a_setting_that_nothing_given_explains_is_not_credited(tmp_path: Path) -> None:
    found, contrast = judged(
        tmp_path, "s/'data_loader_seed': 1/'data_loader_seed': 1/; s/'clip_ratio': 0.2/'clip_ratio': 0.3/"
    )
    assert found["config actor_rollout_ref.actor.clip_ratio"]["declared"] is False
    assert "RLX718" in {each["id"] for each in contrast["findings"]}


def test_status_shows_what_differs_between_the_arms(script: str) -> None:
    finished(script, "--arm", "base", "--arm", "hot:LR='4e-4 x' --more", "--env", "DATA=/d", "--", "a b")
    lines = rlx("status").stdout.splitlines()
    assert "base: 'a b'" in lines and "hot: LR='4e-4 x' 'a b' --more" in lines
    given = [row["given"] for row in json.loads(rlx("status", "--json").stdout)["runs"]]
    assert given == [["DATA=/d", "'a b'"], ["DATA=/d", "LR='4e-4 x'", "'a b' --more"]]
