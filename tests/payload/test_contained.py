"""What keeps the commands of a user's script within its run, in a process namespace: the commands are the real ones.

`ray` is a program that prints what it is called with; tests/runs/test_shared_scripts.py has the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlx.resources import payload_folder

CONTAINED = payload_folder() / "contained"
# Beside the script: one process of a stranger, whose name and command the script's own ones have too.
DRIVER = """
sleep 4444 & export STRANGER=$!
(
    export RLX_CONTAINED_BY=$BASHPID
    RLX_CONTAINED=$RLX_RUN BASH_ENV="$CONTAINED/functions.bash" PATH="$RLX_CONTAINED_BIN:$PATH" {shell} "$1" 2>&1
    echo "ended $?"
)
kill -0 $STRANGER && echo "the stranger lives"
"""
RAY = """#!{python}
import os, sys
print("ray", *sys.argv[1:], "RAY_ADDRESS=" + os.environ.get("RAY_ADDRESS", "-"), flush=True)
if sys.argv[1:2] == ["start"]:
    os.makedirs(os.environ["RAY_TMPDIR"] + "/ray", exist_ok=True)
    open(os.environ["RAY_TMPDIR"] + "/ray/ray_current_cluster", "w").write("127.0.0.1:20001")
"""

SLEEPS = "sleep 4444 & own=$!\nuntil grep -q sleep /proc/$own/comm; do :; done\n"


@dataclass(frozen=True)
class Done:
    output: str
    kept: list[tuple[str, str]]
    log: str
    jobs: list[dict[str, object]]


def run(folder: Path, text: str, shell: str = "bash", **environment: str) -> Done:
    attempt, ray, programs = folder / "attempts/1", folder / "ray", folder / "programs"
    for made in (attempt / "events", ray, programs):
        made.mkdir(parents=True, exist_ok=True)
    (programs / "ray").write_text(RAY.format(python=sys.executable), encoding="utf-8")
    (programs / "ray").chmod(0o755)
    script, driver = folder / "script.sh", folder / "driver.sh"
    script.write_text(text, encoding="utf-8")
    driver.write_text(DRIVER.format(shell=shell), encoding="utf-8")
    bin_folder = folder / "payload/contained"
    shutil.copytree(CONTAINED, bin_folder, dirs_exist_ok=True)
    for program in (bin_folder / "bin").iterdir():
        program.chmod(0o755)
    own = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CONTAINED": str(bin_folder),
        "RLX_CONTAINED_BIN": str(bin_folder / "bin"),
        "RLX_RUN": "grpo-s1",
        "RLX_ATTEMPT_DIR": str(attempt),
        "RLX_RAY_TMP": str(ray),
        "RAY_ADDRESS": "local",
        "FOLDER": str(folder),
    }
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", str(driver), str(script)]
    done = subprocess.run(words, env={**own, **environment}, capture_output=True, text=True, timeout=100, check=False)
    if "unshare" in done.stderr:
        pytest.skip("a process namespace needs root, and a kernel that allows one")
    kept = records(attempt / "events/interventions.jsonl")
    log = attempt / "log"
    return Done(
        done.stdout,
        [(str(each["command"]), str(each["done"])) for each in kept],
        log.read_text(encoding="utf-8") if log.exists() else "",
        records(attempt / "ray_jobs.jsonl"),
    )


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.mark.parametrize("shell", ["bash", "sh", "dash"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("pkill -9 sleep", 137),
        ("pkill -f 'sleep 4444'", 143),
        ("pkill --signal USR1 -x sleep", 138),
        ("killall sleep", 143),
        ("killall -s KILL -q sleep", 137),
        ("env kill -9 -- -1", 137),
        ("pgrep sleep | xargs kill -KILL", 137),
        ("kill -9 $own", 137),
        ("kill -s TERM $own", 143),
    ],
)
def test_it_reaches_the_run_alone(tmp_path: Path, command: str, code: int, shell: str) -> None:
    done = run(tmp_path, f"{SLEEPS}{command}\nwait $own\nexit $?\n", shell)
    # What kills all of the run kills its shell too, unless that shell asks for it itself.
    assert f"ended {code}" in done.output or "-1" in command
    assert "the stranger lives" in done.output


def test_processes_of_others_are_named_and_left_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "kill -9 $STRANGER; echo code $?; pkill -9 sleep; echo code $?; kill -0 $STRANGER\n")
    assert done.output.count("code 1\n") == 2
    assert "the stranger lives" in done.output and "ended 0" in done.output
    assert [command.split()[0] for command, _ in done.kept] == ["kill", "pkill"]
    assert "1 of others left alone" in dict(done.kept)["pkill -9 sleep"]
    assert "rlx: pkill -9 sleep: " in done.log


def test_a_process_that_cleared_its_environment_is_still_the_run_s(tmp_path: Path) -> None:
    done = run(tmp_path, f"{SLEEPS.replace('sleep 4444', 'env -i sleep 4444')}pkill sleep; wait $own\n")
    assert "ended 143" in done.output and "the stranger lives" in done.output


def test_jobs_of_the_shell_are_its_own(tmp_path: Path) -> None:
    text = "set -eu; IFS=,; set -m; sleep 4444 & kill %1; wait %1 || echo code $?; kill -l 9; kill -0 $$\n"
    done = run(tmp_path, text)
    assert "code 143\nKILL\nended 0" in done.output and done.kept == []


def test_fuser_ends_processes_of_the_run_that_hold_a_file(tmp_path: Path) -> None:
    done = run(tmp_path, "exec 3>$FOLDER/held; sleep 4444 & exec 3>&-; fuser -k $FOLDER/held; wait $!; echo code $?\n")
    assert "code 137" in done.output and "the stranger lives" in done.output


def test_an_environment_that_comes_first_is_reached_by_bash_and_not_by_sh(tmp_path: Path) -> None:
    text = 'mkdir -p $FOLDER/env; cp $FOLDER/programs/ray $FOLDER/env; export PATH="$FOLDER/env:$PATH"; '
    assert run(tmp_path / "bash", f"{text}ray stop\n").kept[0][0] == "ray stop"
    in_sh = run(tmp_path / "sh", f"{text}ray stop\n", "sh")
    assert in_sh.kept == [] and "ray stop RAY_ADDRESS=local" in in_sh.output


def test_a_variable_of_the_host_for_bash_stays(tmp_path: Path) -> None:
    (tmp_path / "own.bash").write_text("modules() { echo loaded; }\n", encoding="utf-8")
    assert "loaded" in run(tmp_path, "modules\n", RLX_BASH_ENV=str(tmp_path / "own.bash")).output
    assert "ended 0" in run(tmp_path, "true\n", RLX_BASH_ENV=str(CONTAINED / "functions.bash")).output


def test_a_cluster_gets_what_is_the_run_s(tmp_path: Path) -> None:
    text = (
        "ray start --head --port=6379 --num-gpus 8 --dashboard-host=0.0.0.0 --temp-dir /tmp/ray\n"
        "echo now $RAY_ADDRESS\n"
        "ray job submit --address=http://127.0.0.1:8265 --no-wait -- python x.py --address=y\n"
        "ray job submit -- python x.py\n"
        "ray job submit --submission-id mine --address=http://gpu-head.invalid:8265 -- python x.py\n"
        "ray status\n"
        "ray stop --help\n"
        "ray --logging-level info stop --force\n"
        "echo now $RAY_ADDRESS\n"
    )
    done = run(tmp_path, text, RLX_DEVICE_KIND="cuda", RLX_DEVICES="2,3", CUDA_VISIBLE_DEVICES="0,1")
    start, first, second, third, status, asked = (line for line in done.output.splitlines() if line.startswith("ray "))
    words = start.split()
    port = next(word for word in words if word.startswith("--port=")).partition("=")[2]
    assert port != "6379" and "--temp-dir" not in words and "--num-gpus=2" in words and "RAY_ADDRESS=-" in words
    assert "CUDA_VISIBLE_DEVICES=2,3" in dict(done.kept)["ray start"]
    assert "now 127.0.0.1:20001\n" in done.output and "now local\n" in done.output
    dashboard = next(word for word in words if word.startswith("--dashboard-port=")).partition("=")[2]
    assert f" --submission-id=grpo-s1 --address=http://127.0.0.1:{dashboard} --no-wait -- " in first
    assert first.endswith("-- python x.py --address=y RAY_ADDRESS=-")
    assert f"--submission-id=grpo-s1-2 --address=http://127.0.0.1:{dashboard}" in second
    assert "--address=http://gpu-head.invalid:8265 --submission-id mine" in third
    assert "RAY_ADDRESS=127.0.0.1:20001" in status and asked.startswith("ray stop --help")
    assert [(job["submission_id"], job["own"]) for job in done.jobs] == [
        ("grpo-s1", True), ("grpo-s1-2", True), ("mine", False),
    ]  # fmt: skip
    assert {job["ray"] for job in done.jobs} == {str(tmp_path / "programs/ray")}


def test_a_ray_of_somebody_else_is_refused(tmp_path: Path) -> None:
    with socket.socket() as neighbour:
        neighbour.bind(("127.0.0.1", 0))
        neighbour.listen()
        address = f"127.0.0.1:{neighbour.getsockname()[1]}"
        text = f"ray job submit --address http://{address} -- x; ray start --address={address}; ray job submit x\n"
        done = run(tmp_path, text)
    assert not [line for line in done.output.splitlines() if line.startswith(("ray job", "ray start"))]
    assert [told.partition(":")[0] for _, told in done.kept] == ["refused"] * 3 and done.jobs == []


def test_without_ray_it_says_what_a_shell_says(tmp_path: Path) -> None:
    done = run(tmp_path, "rm $FOLDER/programs/ray; hash -r; PATH=/usr/bin:/bin; ray stop; exit $?\n")
    assert "ended 127" in done.output and "not found" in done.output


def test_a_place_without_awk_does_as_well(tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("bash", "cat", "cut", "date", "grep", "pgrep", "sed", "sh", "sleep", "tr", "unshare", "wc"):
        (few / name).symlink_to(shutil.which(name) or pytest.skip(f"this machine has no {name}"))
    done = run(tmp_path, f"{SLEEPS}pkill sleep; wait $own\n", PATH=str(few))
    assert "ended 143" in done.output and "the stranger lives" in done.output and "awk" not in done.output
