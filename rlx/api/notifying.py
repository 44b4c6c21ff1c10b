"""Tell people what becomes of their runs while somebody waits for them: by a command, or in a chat.

Telling never costs the run, nor the waiting: each message is sent beside it, once, and a listener that does not answer
is named and left alone.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rlx.api.notify_file import Form, Happening, Listener, read_listeners
from rlx.api.telling import unheard

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rlx.api.telling import Tell
    from rlx.runs.status.snapshots import Snapshot

_ANSWER_S = 5.0
_COMMAND_S = 30.0
_FORMS: dict[Form, dict[str, Any]] = {
    Form.FEISHU: {"msg_type": "text", "content": {"text": None}},
    Form.DINGTALK: {"msgtype": "text", "text": {"content": None}},
    Form.WECOM: {"msgtype": "text", "text": {"content": None}},
}
"""The bodies that the custom bots of these chats take, with None where the text goes."""


class Notifier:
    """Hears of each look at runs, and tells the listeners what is new since the first one."""

    def __init__(self, listeners: Sequence[Listener], tell: Tell = unheard) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._listeners, self._tell = listeners, tell
        self._told: dict[str, set[Happening]] = {}
        self._sending: list[tuple[Listener, Future[str]]] = []
        self._given_up: set[Listener] = set()
        self._pool = ThreadPoolExecutor(max_workers=4) if listeners else None

    def see(self, rows: Sequence[Snapshot]) -> None:
        """Tell what has happened since the look before. What was so at the first look is no news."""
        for row in rows:
            now = set(happenings(row))
            for happening in now - self._told.get(row.ref.run_id, now):
                self._send(row, happening)
            self._told[row.ref.run_id] = self._told.get(row.ref.run_id, set()) | now

    def finish(self) -> None:
        """Wait for what is being sent, each only as long as its listener may take, and name those that failed."""
        if self._pool is None:
            return
        if unsent := sum(not sent.done() for _, sent in self._sending):
            self._tell(
                f"rlx: telling of {unsent} {'thing' if unsent == 1 else 'things'}; this takes a few seconds at most"
            )
        complaints = dict.fromkeys(
            f"rlx: {listener.shown}: {problem}" for listener, sent in self._sending if (problem := sent.result())
        )
        self._pool.shutdown()
        for complaint in complaints:
            self._tell(complaint)

    def _send(self, row: Snapshot, happening: Happening) -> None:
        for listener in self._listeners:
            if happening in listener.when and self._pool is not None:
                said = message(row, happening)
                self._sending.append((listener, self._pool.submit(self._send_once, listener, said)))

    def _send_once(self, listener: Listener, said: dict[str, str]) -> str:
        """Leave a listener alone that failed before: fifty runs would wait fifty times for a dead address."""
        problem = "" if listener in self._given_up else send(listener, said)
        if problem:
            self._given_up.add(listener)
        return problem


@contextmanager
def notified(tell: Tell = unheard) -> Iterator[Notifier]:
    """Give what is to hear of each look. Raises UsageError at once for a notify.yaml with mistakes."""
    notifier = Notifier(read_listeners(), tell)
    try:
        yield notifier
    finally:
        notifier.finish()


def happenings(row: Snapshot) -> Iterator[Happening]:
    """What may be told of a run as it is now."""
    from rlx.evidence.outlook import HOPELESS, outlook
    from rlx.model import RunState

    if row.state in (RunState.FAILED, RunState.LOST):
        yield Happening.FAILED
    elif row.state is RunState.FINISHED:
        yield Happening.FINISHED
    elif row.state is RunState.STALLED:
        yield Happening.STALLED
    if outlook(row.verdict, row.state).word == HOPELESS:
        yield Happening.HOPELESS


def message(row: Snapshot, happening: Happening) -> dict[str, str]:
    """What is said: a sentence, and the facts in it by name. It has no number that its verdict does not carry."""
    steps = f"step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"
    text = f"rlx: {row.ref.run_id} on {row.ref.host} {happening} ({steps}): {row.verdict.sentence}"
    return {
        "text": text,
        "event": happening.value,
        "run_id": row.ref.run_id,
        "arm": row.ref.arm,
        "host": row.ref.host,
        "state": row.state.value,
        "verdict": row.verdict.word,
    }


def send(listener: Listener, said: dict[str, str]) -> str:
    """Tell one listener. Returns what went wrong, or ""."""
    try:
        return _run(listener.command, said) if listener.command else _post(listener, said)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # An address in the words of an error would be told to whoever reads them.
        return f"could not be told: {type(error).__name__}"


def _run(command: Sequence[str], said: dict[str, str]) -> str:
    facts = {f"RLX_NOTICE_{name.upper()}": value for name, value in said.items()}
    done = subprocess.run(
        [*command, said["text"]],
        env={**os.environ, **facts},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_COMMAND_S,
        check=False,
    )
    return f"{command[0]} ended with {done.returncode}" if done.returncode else ""


def _post(listener: Listener, said: dict[str, str]) -> str:
    from urllib.request import Request, urlopen

    body = _filled(_FORMS[listener.form], said["text"]) if listener.form in _FORMS else said
    data = json.dumps(body, ensure_ascii=False).encode()
    request = Request(listener.address, data, {"Content-Type": "application/json; charset=utf-8"})
    with urlopen(request, timeout=_ANSWER_S) as answer:
        answer.read(1 << 16)
    return ""


def _filled(form: dict[str, Any], text: str) -> dict[str, Any]:
    return {
        key: text if value is None else _filled(value, text) if isinstance(value, dict) else value
        for key, value in form.items()
    }
