"""What noise code does to a real model when it is run: transformers' tiny Qwen2, in a process without our secrets."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.api.noise import AuditSchedule, read_noise_code, run_noise_code
from rlx.audit import AuditOutcome, find_fence
from rlx.cli.aqn import aqn
from rlx.cli.text.noise_text import sentence
from rlx.errors import RlxError, UsageError
from tests.audit.checkouts import BY_CLASS, BY_TEXT, WITHOUT_SIGMA, checkout
from tests.runs.toys import command_lines, until
from tests.wording import settled

FAST = AuditSchedule(sigma_start=0.01, sigma_end=0.001, stages=3, steps=6)
NORM = "transformers.models.qwen2.modeling_qwen2.Qwen2RMSNorm"
SECRET = "wandb-0123456789"


def run(folder: Path, code: str, time_limit: float = 120, **others: str) -> AuditOutcome:
    hook = read_noise_code(checkout(folder / "c", code, **others)).hook
    [outcome] = run_noise_code(hook, schedule=FAST, time_limit=time_limit).outcomes
    assert outcome.engine == "transformers"
    return outcome


def test_code_that_reaches_each_norm(tmp_path: Path) -> None:
    caller = "from trainer.noise import add_noise\nadd_noise(m, 0, 1, [s])\n"
    outcome = run(tmp_path, BY_TEXT, loop=caller)
    assert outcome.sigmas == pytest.approx([0, 0, 0.01, 0.01, 0.001, 0.001, 0.001])
    assert [(call.step, call.layers, call.elements) for call in outcome.calls] == [(0, 0, 0), (2, 5, 320), (4, 5, 320)]
    strong, weak = outcome.noisy
    assert strong.classes == outcome.norms == {NORM: 5}
    assert strong.std == pytest.approx(0.01, rel=0.2) and weak.std == pytest.approx(0.001, rel=0.2)
    assert strong.moved > weak.moved > 0 and outcome.told is None
    assert outcome.constant_calls == [(0, 1, 0.0)]
    assert sentence(outcome).startswith("reaches 5 layers (5 Qwen2RMSNorm), 320 elements")


def test_code_whose_class_is_not_there(tmp_path: Path, wording: SnapshotAssertion) -> None:
    outcome = run(tmp_path, BY_CLASS)
    assert [call.layers for call in outcome.calls] == [0, 0, 0] and outcome.noisy[0].moved == 0
    assert outcome.told and (outcome.told.layers, outcome.told.elements, outcome.told.step) == (5, 320, 2)
    assert sentence(outcome) == wording


def test_a_schedule_that_never_rises(tmp_path: Path, wording: SnapshotAssertion) -> None:
    outcome = run(tmp_path, WITHOUT_SIGMA)
    assert set(outcome.sigmas) == {0.0} and not outcome.noisy and outcome.told is None
    assert sentence(outcome) == wording


HOSTILE = f"""
import glob, os, socket, sys
seen = [str(dict(os.environ)), sys.stdin.read()]
for name in glob.glob("/proc/[0-9]*/environ"):
    try:
        seen.append(open(name, "rb").read().decode(errors="replace"))
    except OSError:
        pass
port = int(open(os.path.join(os.path.dirname(__file__), "port")).read())
try:
    socket.create_connection(("127.0.0.1", port), 1)
    seen.append("connected")
except OSError:
    seen.append("no network")
open(os.path.join(os.path.dirname(__file__), "seen"), "w").write("\\n".join(seen))
print("\\x1b]0;title\\x07" + "rubbish" * 100_000)
print({{"layers": 99}})
{BY_TEXT}"""


def test_code_that_looks_for_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rubbish on stdout changes no answer."""
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:
        folder = checkout(tmp_path / "c", HOSTILE)
        (folder / "trainer/port").write_text(str(server.getsockname()[1]), encoding="utf-8")
        runs = run_noise_code(read_noise_code(folder).hook, schedule=FAST)
    seen = (folder / "trainer/seen").read_text(encoding="utf-8")
    assert str(Path.home()) not in seen.splitlines()[0] and SECRET not in seen.splitlines()[0]
    assert runs.outcomes[0].reached == 5
    assert runs.fenced == find_fence().closed
    if runs.fenced:
        assert SECRET not in seen and "no network" in seen


def test_code_that_hangs(tmp_path: Path) -> None:
    """The process is ended with all that it started; here one stands for the Python that is beside the model."""
    hook = read_noise_code(checkout(tmp_path / "c", BY_TEXT)).hook
    slow, seconds = tmp_path / "python", f"98765.{os.getpid()}"  # who tests beside us has another
    starts = f'case "$*" in *" -c "*) exec {sys.executable} "$@";; esac'
    slow.write_text(f"#!/bin/sh\n{starts}\nsleep {seconds} & sleep {seconds}\n", encoding="utf-8")
    slow.chmod(0o755)
    with pytest.raises(RlxError, match=r"\b2 s\b"):
        run_noise_code(hook, python=str(slow), schedule=FAST, time_limit=2)
    # A process that was killed goes when the kernel comes to it.
    until(lambda: not command_lines("sleep", seconds), "it ends")


def test_code_that_ends_the_process(tmp_path: Path) -> None:
    leaves = "import os\nprint('bye \\x1b[31m')\nos.sys.stdout.flush()\nos._exit(7)\n"
    with pytest.raises(RlxError, match=r"\b7\b") as ended:
        run(tmp_path, leaves + BY_TEXT)
    assert "bye" in ended.value.hint


def test_code_that_writes_its_own_answer(tmp_path: Path, wording: SnapshotAssertion) -> None:
    forged = "import os\nanswer = open(os.path.join(os.environ['HOME'], 'answer.json'), 'w')\n"
    forged += "answer.write('{\"version\": [1]}')\nanswer.flush()\nos._exit(0)\n"
    with pytest.raises(RlxError) as refused:
        run(tmp_path, forged + BY_TEXT)
    assert settled(refused.value.message, {str(tmp_path): "folder"}) == wording


def test_a_schedule_that_is_none(tmp_path: Path) -> None:
    hook = read_noise_code(checkout(tmp_path / "c", BY_TEXT)).hook
    for wrong in (AuditSchedule(stages=2), AuditSchedule(steps=0), AuditSchedule(sigma_end=0)):
        with pytest.raises(UsageError):
            run_noise_code(hook, schedule=wrong)
    with pytest.raises(RlxError, match=str(tmp_path / "python")):
        run_noise_code(hook, python=str(tmp_path / "python"))


def invoked(*arguments: str) -> Any:
    return CliRunner().invoke(aqn, ["audit", *arguments])


def test_without_a_terminal_and_without_yes_it_is_refused(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "c", f"open({str(tmp_path / 'trace')!r}, 'w')\n" + BY_TEXT)
    refused = invoked(str(folder))
    assert isinstance(refused.exception, UsageError) and refused.exception.exit_code == 2
    assert "executes trainer/noise.py" in refused.exception.message and not (tmp_path / "trace").exists()
    read = json.loads(invoked(str(folder), "--read", "--json").stdout)
    assert read["run"] is None and read["read"]["texts"] == ["norm"] and not (tmp_path / "trace").exists()


def test_the_answer_as_json_and_as_text(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "c", BY_TEXT)
    size = ("--steps", "6", "--stages", "3")
    [model] = json.loads(invoked(str(folder), "-y", "--json", *size).stdout)["run"]["models"]
    assert (model["layers_reached"], model["norm_layers"], model["norms"]) == (5, 5, {NORM: 5})
    lines = invoked(str(folder), "-y", *size).stdout.splitlines()
    assert any(line.startswith("2 ") and "5 of 5" in line and "320 of 320" in line for line in lines)
