"""A secret that nobody gave is asked for at the terminal, unseen and once; a proxy's value is a secret like any."""

from __future__ import annotations

import codecs
import json
import os
import pty
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import UsageError
from rlx.hosts import user_file
from rlx.model import LaunchPlan, to_jsonable
from rlx.runs import Index, RunRef, stop
from tests.cli.support import rlx
from tests.runs.test_secrets import SECRET, files_with_the_secret, watched_arguments
from tests.runs.toys import FOREVER, ended, home, log_of, start, toy_plan, until

SHOW = 'printf %s "$TOKEN_OF_A" | sha256sum; printf %s "$https_proxy" | sha256sum; echo "${CORP_PROXY-unset}"\n'
PROXY = f"http://me:{SECRET}@192.0.2.1:8080"


def sha256(text: str) -> str:
    return subprocess.run(
        ["sha256sum"], input=text, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout.split()[0]


def runs() -> tuple[RunRef, ...]:
    return Index(home()).runs()


def ended_runs() -> tuple[RunRef, ...]:
    refs = runs()
    for ref in refs:
        assert ended(ref).exit_code == 0, log_of(ref)
    return refs


def write_plans(path: Path, *plans: LaunchPlan) -> str:
    path.write_text(json.dumps({"plans": to_jsonable(plans)}), encoding="utf-8")
    return str(path)


class Terminal:
    """A program in a terminal of its own, like a person has one."""

    def __init__(self, command: list[str]) -> None:
        self._screen, stdin = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command], stdin=stdin, stdout=stdin, stderr=stdin
        )
        os.close(stdin)
        self.shown = ""
        # What is read may end within a letter.
        self._decode = codecs.getincrementaldecoder("utf-8")().decode

    def read_until(self, text: str) -> None:
        while text not in self.shown:
            self.shown += self._decode(os.read(self._screen, 4096))

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def end(self, insist: str = "") -> int:
        """The exit code, once everything was read. `insist` is typed again where nothing comes.

        A Ctrl-C just before Python begins to read interrupts no reading; a person presses it once more.
        """
        try:
            while insist and not select.select([self._screen], [], [], 5.0)[0]:
                self.type(insist)
            while more := os.read(self._screen, 4096):
                self.shown += self._decode(more)
        except OSError:  # how Linux says that nobody has the terminal open any more
            pass
        os.close(self._screen)
        return self.process.wait()


def launch_in_terminal(plan: str) -> Terminal:
    return Terminal([sys.executable, "-m", "rlx", "launch", "--plan", plan])


def test_what_is_missing_is_asked_once_and_not_shown(tmp_path: Path) -> None:
    plans = [toy_plan(SHOW, arm=arm, secrets=("TOKEN_OF_A",)) for arm in ("one", "two")]
    with watched_arguments() as found:
        terminal = launch_in_terminal(write_plans(tmp_path / "plan.json", *plans))
        terminal.read_until("TOKEN_OF_A: ")
        terminal.type(f"{SECRET}\n")
        assert terminal.end() == 0, terminal.shown
    assert found == []
    assert terminal.shown.count("TOKEN_OF_A: ") == 1
    assert SECRET not in terminal.shown
    for ref in ended_runs():
        assert sha256(SECRET) in log_of(ref)
    assert files_with_the_secret() == []


@pytest.mark.parametrize(("typed", "code"), [("\n", 2), ("\x04", 2), ("\x03", 130)], ids=["nothing", "end", "Ctrl-C"])
def test_no_answer_starts_nothing(typed: str, code: int, tmp_path: Path) -> None:
    terminal = launch_in_terminal(write_plans(tmp_path / "plan.json", toy_plan(SHOW, secrets=("TOKEN_OF_A",))))
    terminal.read_until("TOKEN_OF_A: ")
    terminal.type(typed)
    assert terminal.end(insist=typed) == code, terminal.shown
    assert "Traceback" not in terminal.shown
    assert not ended_runs()
    assert not (Path(os.environ["RLX_ROOT"]) / "runs").exists()


def test_what_is_given_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_A", SECRET)
    terminal = launch_in_terminal(write_plans(tmp_path / "plan.json", toy_plan(SHOW, secrets=("TOKEN_OF_A",))))
    terminal.read_until("TOKEN_OF_A")
    terminal.type("y\n")
    assert terminal.end() == 0, terminal.shown
    assert "TOKEN_OF_A: " not in terminal.shown
    ended_runs()


def test_without_a_terminal_it_is_an_error(tmp_path: Path, wording: SnapshotAssertion) -> None:
    plan = write_plans(tmp_path / "plan.json", toy_plan(SHOW, secrets=("TOKEN_OF_A",)))
    done = rlx("launch", "--plan", plan, code=2)
    assert "TOKEN_OF_A" in done.stderr and "--secret-file" in done.stderr
    assert done.stderr == wording


@pytest.fixture
def proxies() -> None:
    user_file().parent.mkdir()
    user_file().write_text("hosts: {local: {proxies: {https_proxy: {secret: CORP_PROXY}}}}", encoding="utf-8")


@pytest.mark.usefixtures("proxies")
def test_a_proxy_gets_the_value_of_its_secret_and_nobody_else_does() -> None:
    plan = toy_plan(f"{SHOW}echo up\n{FOREVER}")
    assert plan.secret_names == ("CORP_PROXY",)
    with watched_arguments() as found:
        (ref,) = start(plan, secrets={"CORP_PROXY": PROXY})
        until(lambda: "up" in log_of(ref), "the script runs")
        stop(ref, grace_s=1)
    assert found == []
    assert files_with_the_secret() == []
    assert sha256(PROXY) in log_of(ref)
    # The secret goes by the name of the variable alone.
    assert "unset\n" in log_of(ref)
    assert '"https_proxy": "CORP_PROXY"' in (ref.run_dir / "manifest.json").read_text(encoding="utf-8")


@pytest.mark.usefixtures("proxies")
def test_the_secret_of_a_proxy_is_asked_for_like_any(tmp_path: Path) -> None:
    terminal = launch_in_terminal(write_plans(tmp_path / "plan.json", toy_plan(SHOW)))
    terminal.read_until("CORP_PROXY: ")
    terminal.type(f"{PROXY}\n")
    assert terminal.end() == 0, terminal.shown
    assert SECRET not in terminal.shown
    (ref,) = ended_runs()
    assert sha256(PROXY) in log_of(ref)


@pytest.mark.usefixtures("proxies")
def test_a_secret_of_the_recipe_goes_before_a_proxy_of_the_host() -> None:
    plan = toy_plan(SHOW, secrets=("https_proxy", "CORP_PROXY"))
    (ref,) = start(plan, secrets={"CORP_PROXY": "http://192.0.2.1", "https_proxy": "http://192.0.2.2"})
    assert ended(ref).exit_code == 0
    assert sha256("http://192.0.2.2") in log_of(ref)
    # Its value, masked, where nothing would say that it is there.
    assert "***\n" in log_of(ref)


def test_a_plan_whose_proxy_is_no_variable_is_refused() -> None:
    plan = toy_plan(SHOW)
    with pytest.raises(UsageError, match="x;id"):
        start(replace(plan, site=replace(plan.site, proxies={"x;id": "CORP_PROXY"})), secrets={"CORP_PROXY": "x"})
