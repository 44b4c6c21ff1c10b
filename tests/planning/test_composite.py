"""The composite script under real shells, with programs that hang, die, forge and shout."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.model import Site
from rlx.planning.host_query import environment_questions, host_questions
from rlx.planning.host_requirements import DataFile, HostRequirements
from rlx.planning.probing.composite import ProbeAnswer, frames, pack, read_side, times
from rlx.planning.probing.docker import DOCKER
from rlx.planning.probing.machine import MACHINE, TOOLS
from rlx.planning.probing.npu import NPU_SMI
from rlx.planning.probing.probe import Question

MARK = "rlx-mark"
HANGS = replace(NPU_SMI, limit_s=1)


def ask(script: str, shell: tuple[str, ...] = ("sh",), path: str | None = None) -> str:
    done = subprocess.run(
        [*shell, "-s", MARK],
        input=script.encode(),
        capture_output=True,
        check=True,
        timeout=120,
        env={**os.environ, "PATH": path or os.environ["PATH"]},
    )
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.fixture
def played(tmp_path: Path) -> Callable[[str, str], str]:
    """Puts a program before all others on PATH, and returns that PATH."""

    def put(name: str, text: str) -> str:
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
        return f"{program.parent}:{os.environ['PATH']}"

    return put


@pytest.mark.parametrize("shell", [("dash",), ("bash", "--posix"), ("busybox", "sh")], ids=lambda shell: shell[0])
def test_every_posix_shell_answers_everything(shell: tuple[str, ...], tmp_path: Path) -> None:
    assert shutil.which(shell[0]), f"{shell[0]} is not installed"
    wanted = HostRequirements("verl", files=(DataFile("train", str(tmp_path / "it's data"), 3, "prompt"),))
    questions = [*host_questions(Site(root=str(tmp_path / "a b"))), *environment_questions(Site(), wanted)]
    output = ask(pack(questions), shell)
    side = read_side(questions, frames(output, MARK))
    assert side.silent == {}
    assert side.of("machine")["uid"] == os.getuid()
    assert side.of("disk")["paths"][0]["existing"] == str(tmp_path)
    assert side.of("packages")["python"]
    assert side.of("paths")["paths"][0]["path"] == str(tmp_path / "it's data")
    first, last = times(output, MARK)
    assert first <= last


def test_a_machine_with_nothing_but_busybox(tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    assert busybox, "busybox is not installed"
    for applet in subprocess.run(
        [busybox, "--list"], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout.split():
        (tmp_path / applet).symlink_to(busybox)
    questions = host_questions(Site())
    side = read_side(questions, frames(ask(pack(questions), (str(tmp_path / "sh"),), str(tmp_path)), MARK))
    assert side.silent == {}
    assert side.of("tools")["paths"]["sh"] == str(tmp_path / "sh")
    assert "bash" not in side.of("tools")["paths"] and not side.of("tools")["flock_options"]
    assert side.of("disk")["paths"][0]["free_kib"] and side.of("processes")["total"]
    assert side.of("docker")["problem"] == "missing"


@pytest.mark.long
@pytest.mark.parametrize(
    "program",
    ["exec sleep 60", "trap '' TERM HUP INT; while :; do sleep 1; done", "sleep 60 & wait"],
    ids=["sleeps", "deaf to signals", "has children"],
)
def test_a_program_that_hangs_holds_up_nothing(program: str, played: Callable[[str, str], str]) -> None:
    path = played("npu-smi", f"echo before; {program}")
    questions = [Question(HANGS), Question(TOOLS)]
    side = read_side(questions, frames(ask(pack(questions), path=path), MARK))
    assert side.silent == {"npu_smi": 1}
    assert "sh" in side.of("tools")["paths"]


def test_what_takes_long_is_asked_beside_the_rest(played: Callable[[str, str], str], tmp_path: Path) -> None:
    played("docker", f"touch {tmp_path}/asked; echo of docker")
    path = played("npu-smi", f"until [ -e {tmp_path}/asked ]; do sleep 0.05; done; echo seen")
    slow = replace(NPU_SMI, beside=True)
    answers = frames(ask(pack([Question(slow), Question(DOCKER), Question(TOOLS)]), path=path), MARK)
    assert answers["npu_smi"] == ProbeAnswer("seen\n", 0)
    assert "of docker" in answers["docker"].text and answers["tools"].answered


def test_the_container_is_entered_beside_the_host_but_not_while_that_asks_its_devices(
    played: Callable[[str, str], str], tmp_path: Path
) -> None:
    entered, asked = tmp_path / "entered", tmp_path / "asked"
    played("npu-smi", f"[ -e {entered} ] || echo alone")
    played("tmux", f"touch {asked}")
    path = played("docker", f'touch {entered}; until [ -e {asked} ]; do sleep 0.05; done; shift 3; exec "$@"')
    output = ask(pack([Question(TOOLS), Question(NPU_SMI)], "a container", [Question(TOOLS)]), path=path)
    answers, inside = frames(output, MARK), frames(output, f"{MARK}-inside")
    assert answers["npu_smi"] == ProbeAnswer("alone\n", 0)
    assert answers["tools"].answered and answers["enter"].answered and inside["tools"].answered


def test_a_program_cannot_speak_for_another_probe(played: Callable[[str, str], str]) -> None:
    path = played("npu-smi", "echo; echo 'mark end npu_smi 0'; echo 'rlx- begin tools'; echo 'sh=/evil'; cat; exit 3")
    answers = frames(ask(pack([Question(NPU_SMI), Question(TOOLS)]), path=path), MARK)
    assert answers["npu_smi"] == ProbeAnswer("\nmark end npu_smi 0\nrlx- begin tools\nsh=/evil\n", 3)
    assert "/evil" not in answers["tools"].text


def test_an_answer_without_a_line_break_keeps_its_frame(played: Callable[[str, str], str]) -> None:
    answers = frames(ask(pack([Question(NPU_SMI), Question(MACHINE)]), path=played("npu-smi", "printf oops")), MARK)
    assert answers["npu_smi"] == ProbeAnswer("oops", 0)
    assert answers["machine"].answered


@pytest.mark.parametrize("length", range(0, 4000, 57))
def test_an_output_that_is_cut_off_is_no_answer(length: int) -> None:
    """A connection may break anywhere: what did not come to its end is silent, never half an answer."""
    questions = [Question(TOOLS), Question(MACHINE)]
    whole = WHOLE or ask(pack(questions))
    side = read_side(questions, frames(whole[:length], MARK))
    full = read_side(questions, frames(whole, MARK))
    for probe in ("tools", "machine"):
        assert probe in side.silent or side.of(probe) == full.of(probe)


WHOLE = ask(pack([Question(TOOLS), Question(MACHINE)]))


def test_an_exit_status_of_thousands_of_digits_is_no_end() -> None:
    found = frames(f"\n{MARK} begin tools\nx\n{MARK} end tools {'9' * 5000}\n", MARK)
    assert found == {"tools": ProbeAnswer("x", None)}
