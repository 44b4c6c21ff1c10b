"""Being told what becomes of runs: by a command, by webhooks, and by none that costs anything."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest

from tests.cli.support import rlx
from tests.runs.toys import start, start_one, toy_plan, until


class Chat:
    """A server on loopback that keeps what it is sent. While `quiet` is not set it takes messages and says nothing."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.answers = Event()
        self.answers.set()
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                chat.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                chat.answers.wait(60)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook/very-secret"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    found = Chat()
    monkeypatch.setenv("CHAT", found.address)
    yield found
    found.answers.set()
    found.server.shutdown()
    found.server.server_close()


def listeners(text: str) -> None:
    folder = Path(os.environ["RLX_CONFIG"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notify.yaml").write_text(text, encoding="utf-8")


UNTIL_GO = "while [ ! -e ../../go ]; do sleep 0.05; done"


class Waited(NamedTuple):
    """What `rlx wait` printed after it had seen the runs go on."""

    out: str
    err: str
    code: int


def waited() -> Waited:
    """Wait for runs that end once `rlx wait` has looked at them."""
    wait = subprocess.Popen(
        [sys.executable, "-m", "rlx", "wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert wait.stderr is not None
    assert "waiting:" in wait.stderr.readline()
    Path(os.environ["RLX_ROOT"], "go").touch()
    out, err = wait.communicate(timeout=120)
    return Waited(out, err, wait.returncode)


def test_a_run_that_fails_is_told_in_the_form_of_each_chat(chat: Chat) -> None:
    kinds = ("json", "feishu", "dingtalk", "wecom")
    listeners("".join(f"- {{webhook: {{secret: CHAT}}, kind: {kind}}}\n" for kind in kinds))
    (ref,) = start(toy_plan(f"{UNTIL_GO}; exit 3"))
    assert waited().code == 10
    assert len(chat.bodies) == 4
    plain = next(body for body in chat.bodies if "event" in body)
    assert (plain["event"], plain["run_id"], plain["state"]) == ("failed", ref.run_id, "failed")
    assert ref.run_id in plain["text"] and "failed" in plain["text"]
    text = plain["text"]
    assert {"msg_type": "text", "content": {"text": text}} in chat.bodies
    assert chat.bodies.count({"msgtype": "text", "text": {"content": text}}) == 2


def test_a_command_gets_the_sentence_and_the_facts(tmp_path: Path) -> None:
    told = tmp_path / "told"
    listeners(
        f"""- command: [sh, -c, 'echo "$RLX_NOTICE_EVENT $RLX_NOTICE_ARM: $1" >>{told}', sh]\n  when: [finished]\n"""
    )
    start(toy_plan(UNTIL_GO, arm="good"), toy_plan(f"{UNTIL_GO}; exit 3", arm="bad"))
    assert waited().code == 10
    (line,) = told.read_text(encoding="utf-8").splitlines()
    assert line.startswith("finished good: rlx: toy-good-s1-")


def test_a_run_that_had_ended_before_is_no_news(chat: Chat) -> None:
    listeners("- {webhook: {secret: CHAT}}\n")
    start(toy_plan("true"))
    until(lambda: "finished" in rlx("status").stdout, "it has ended")
    rlx("wait", code=0)
    assert chat.bodies == []


def test_a_dead_listener_and_a_slow_one_cost_nothing_and_are_named(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    chat.answers.clear()
    listeners(
        "- {webhook: {secret: DEAD}}\n- {webhook: {secret: CHAT}}\n- command: [/nowhere/at-all]\n- command: ['false']\n"
    )
    start(*(toy_plan(f"{UNTIL_GO}; exit 3", arm=f"arm{number}") for number in range(3)))
    # A port that is taken and on which nobody listens: one that was given back would soon be another test's.
    with closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setenv("DEAD", f"http://127.0.0.1:{silent.getsockname()[1]}/very-secret")
        done = waited()
    assert (done.code, done.out.count("  failed  ")) == (10, 3)
    for line in (1, 2, 3, 4):
        assert done.err.count(f"notify.yaml:{line}:") == 1, done.err
    assert "very-secret" not in done.out + done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {webhook: 'https://example.invalid/x'}\n", "the variable that holds the address"),
        ("- {webhook: {secret: NOT_SET_AT_ALL}}\n", "NOT_SET_AT_ALL holds no address"),
        ("- {webhook: {secret: CHAT}, kind: slack}\n", "feishu"),
        ("- {command: [true], when: [maybe]}\n", "stalled"),
        ("- {command: [true], webhook: {secret: CHAT}}\n", "one of them only"),
        ("- {comand: [true]}\n", "command"),
        ("webhook: {secret: CHAT}\n", "must be a list"),
        ("- &a {webhook: {secret: CHAT}}\n", "anchors"),
        ("--- []\n--- []\n", "a notify.yaml holds one"),
    ],
)
def test_mistakes_are_told_before_anything_is_waited_for(text: str, said: str, chat: Chat) -> None:
    listeners(text)
    start_one("sleep 300")
    error = rlx("wait", code=2).stderr
    assert said in error and re.search(r"notify\.yaml:[12]:", error)
    assert "https://example.invalid" not in error
