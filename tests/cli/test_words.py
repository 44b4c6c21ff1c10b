"""Whatever people type, name and print: words and an exit code that says whose fault it is, never a bug of rlx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlx.model import RunState
from tests.runs.toys import ended, start, toy_plan

NO_UTF8 = b"a\xff\xfe"
LONG = "x" * 300

Done = subprocess.CompletedProcess[bytes]


def rlx(*arguments: str | bytes, codes: tuple[int, ...] = (1, 2, 12), **variables: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "rlx", *arguments],
        capture_output=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    assert b"Traceback" not in done.stdout + done.stderr, done.stderr.decode(errors="replace")
    assert done.returncode in codes, (done.returncode, done.stdout, done.stderr)
    return done


@pytest.mark.parametrize(
    "arguments",
    [
        (b"validate", NO_UTF8),
        (b"validate", b"tiny-cpu", b"--set", b"name=" + NO_UTF8),
        (b"validate", b"tiny-cpu", b"--set", NO_UTF8 + b"=1"),
        (b"plan", b"tiny-cpu", b"--arm", NO_UTF8),
        (b"status", NO_UTF8),
        (b"logs", b"--grep", NO_UTF8),
        (b"import", b"/dev/null", b"--name", NO_UTF8),
        (b"import", NO_UTF8, b"--name", b"a"),
        (b"launch", b"--plan", NO_UTF8),
        (b"launch", b"tiny-cpu", b"--secret-file", NO_UTF8),
        (b"hosts", b"add", NO_UTF8, NO_UTF8),
        (b"diagnose", NO_UTF8),
        (b"migrate", NO_UTF8, b"--to", NO_UTF8),
        (b"explain", NO_UTF8),
    ],
    ids=lambda arguments: " ".join(word.decode(errors="replace") for word in arguments),
)
def test_arguments_that_are_no_utf8(arguments: tuple[bytes, ...]) -> None:
    # 5: a launch is refused where the tiny recipe's data have not been made.
    rlx(*arguments, codes=(1, 2, 5, 12))


@pytest.mark.parametrize("kind", ["verl", "mindspeed-rl"])
def test_a_name_that_no_file_can_have(kind: str, tmp_path: Path) -> None:
    done = rlx("validate", "tiny-cpu", "--set", f"backend={{kind: {kind}, key_source: /{LONG}}}")
    assert b"File name too long" in done.stdout or kind != "verl"
    rlx("validate", "tiny-cpu", "--set", f"reward={{path: /{LONG}}}")
    rlx("validate", "tiny-cpu", "--set", f"model.path=~{LONG}", codes=(0, 2))
    rlx("migrate", "tiny-cpu", "--set", f"backend.key_source=/{LONG}", codes=(0, 1, 2))


def test_a_stream_that_cannot_write_every_letter(tmp_path: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    rlx("recipes", codes=(0,), **ascii_only)
    rlx("explain", "RLX620", codes=(0,), **ascii_only)
    rlx("plan", "tiny-cpu", codes=(0, 2, 5), **ascii_only)
    shown = rlx("validate", "tiny-cpu", "--json", "--set", "name=σ😀", codes=(2,), **ascii_only)
    json.loads(shown.stdout)
    told = rlx("init", os.fsencode(tmp_path) + b"/\xff.yaml", codes=(0,), PYTHONIOENCODING="utf-8:strict")
    assert b"xff.yaml" in told.stdout or b"dcff.yaml" in told.stdout


def test_a_log_is_diagnosed_in_a_locale_without_utf_8(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step:1 - critic/score/mean:0.1 — σ\n", encoding="utf-8")
    rlx("diagnose", str(tmp_path / "log"), codes=(0,), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")


def test_the_log_of_bugs_takes_every_argument(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    program = "import sys; from rlx.cli.frame.app import _report_bug; sys.exit(_report_bug(ValueError('x')))"
    done = subprocess.run([sys.executable, "-c", program, NO_UTF8], capture_output=True, check=False)
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr


EVENTS = (
    '{"kind": "noise", "phase": "rollout", "step": 1, "layers": 2, "sigma": %s, "elements": 10, "changed": 5}',
    '{"kind": "noise", "phase": "rollout", "step": %s, "layers": 2, "sigma": 0.1}',
    '{"kind": "noise", "phase": "rollout", "step": 1, "layers": 2, "sigma": 0.1, "elements": %s, "asked_std": %s}',
    '{"kind": "probe", "phase": "rollout", "step": 1, "sigma": 0.1, "delta": %s, "floor": %s, "tokens": 3}',
    '{"kind": "settings", "elements": %s, "reached": {"layer_types": {"rmsnorm": %s}}}',
    '{"step": %s, "data": {"a/b": %s, "perf/time_per_step": %s}}',
)
NUMBERS = ("9" * 320, "-" + "9" * 320, "1e400", "1e308", "NaN", "-Infinity", "9" * 5000, "1e-320", "[[" * 5000)


def test_numbers_that_no_training_writes_cost_one_row(tmp_path: Path) -> None:
    lines = [line.replace("%s", number) for line in EVENTS for number in NUMBERS]
    for name, kind in (("events/a-1.jsonl", "kind"), ("metrics.jsonl", "data")):
        (tmp_path / Path(name).name).write_text(
            "\n".join(line for line in lines if f'"{kind}"' in line) + "\n", encoding="utf-8"
        )
    script = f"cp {tmp_path}/a-1.jsonl $RLX_ATTEMPT_DIR/events/; cp {tmp_path}/metrics.jsonl $RLX_ATTEMPT_DIR/\n"
    values = " ".join(f"m{n}:{number}" for n, number in enumerate(NUMBERS[:7]))
    script += f"echo 'step:1 - {values} - training/global_step:1'\n"
    (bad,) = start(toy_plan(script, arm="bad"))
    (good,) = start(toy_plan("echo 'step:1 - a:1'\n", arm="good"))
    ended(bad)
    ended(good)
    told = json.loads(rlx("status", "--json", "-a", codes=(0,)).stdout)
    states = {run["arm"]: run["state"] for run in told["runs"]}
    assert states == {"bad": RunState.FINISHED, "good": RunState.FINISHED}
    rlx("status", "-v", "bad", codes=(0,))
    rlx("compare", "good", "bad", codes=(0, 1, 11, 14))
    rlx("diagnose", "bad", codes=(0, 1, 10, 14))
    rlx("report", "good", "bad", "-o", str(tmp_path / "report.html"), codes=(0, 1, 11, 14))


def test_a_plan_with_numbers_that_no_plan_has(tmp_path: Path) -> None:
    from rlx.model import to_jsonable

    document = {"plans": [to_jsonable(toy_plan("true"))]}
    text = json.dumps(document).replace('"seed": 1', '"seed": ' + "9" * 400)
    (tmp_path / "plan.json").write_text(text, encoding="utf-8")
    rlx("launch", "--plan", str(tmp_path / "plan.json"))


def test_a_folder_without_room(tmp_path: Path) -> None:
    """The program that makes the files fails: its last words are the reason, without its traceback."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = rlx("data", "tiny-cpu", "--to", str(tmp_path / "file" / "x"))
    assert b"file" in done.stderr


def test_the_log_of_bugs_keeps_no_value_of_a_variable_and_does_not_grow_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "home/bug.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("x" * (2 << 20), encoding="utf-8")
    program = "import sys; from rlx.cli.frame.app import _report_bug; sys.exit(_report_bug(ValueError('x')))"
    sets = ("env.TOKEN=hunter2", "env={A: hunter2}", "arms.a.env.B=hunter2", "train.lr=1")
    words = ["launch", "--set=env.C=hunter2", *(word for each in sets for word in ("--set", each))]
    subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)
    told = log.read_text(encoding="utf-8")
    assert "hunter2" not in told and "train.lr=1" in told and "env.TOKEN=…" in told
    assert len(told) < 10_000 and (log.stat().st_mode & 0o077) == 0
    assert log.with_name("bug.log.1").exists()


def test_a_fix_installs_nothing_by_a_name_that_anybody_may_register() -> None:
    from rlx.installed import _requirements, install_command

    for extra in ("plot", "data", "paramiko"):
        command = install_command(extra)
        assert "'rlx[" not in command
        assert _requirements(extra)[0].startswith(("matplotlib", "pyarrow", "paramiko"))
