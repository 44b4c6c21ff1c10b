"""Notify people about their runs while rlx waits for them: by a command, or in a chat.

A notification never delays the run or the waiting: each message is sent once, in the background, and a listener that
does not answer is named and not tried again.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.api.runs import unheard
from rlx.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rlx.api.runs import Tell
    from rlx.runs.status.snapshots import Snapshot

_MOST_BYTES = 100_000
_ANSWER_S = 5.0
_COMMAND_S = 30.0


class Happening(StrEnum):
    """An event of a run that a listener can be notified of."""

    FAILED = "failed"
    STALLED = "stalled"
    HOPELESS = "cannot become valid"
    FINISHED = "finished"


class Form(StrEnum):
    """The form of a message that a webhook takes."""

    JSON = "json"
    FEISHU = "feishu"
    DINGTALK = "dingtalk"
    WECOM = "wecom"


@dataclass(frozen=True, slots=True)
class Listener:
    """A command or the address of a webhook. `shown`: its name in a complaint, without the address."""

    command: tuple[str, ...]
    address: str
    form: Form
    when: frozenset[Happening]
    shown: str


_FORMS: dict[Form, dict[str, Any]] = {
    Form.FEISHU: {"msg_type": "text", "content": {"text": None}},
    Form.DINGTALK: {"msgtype": "text", "text": {"content": None}},
    Form.WECOM: {"msgtype": "text", "text": {"content": None}},
}
"""The bodies that the custom bots of these chats take, with None where the text goes."""


class Notifier:
    """Notify the listeners of what is new since the first query of the runs."""

    def __init__(self, listeners: Sequence[Listener], tell: Tell = unheard) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._listeners, self._tell = listeners, tell
        self._told: dict[str, set[Happening]] = {}
        self._sending: list[tuple[Listener, Future[str]]] = []
        self._given_up: set[Listener] = set()
        self._pool = ThreadPoolExecutor(max_workers=4) if listeners else None

    def see(self, rows: Sequence[Snapshot]) -> None:
        """Notify of what has happened since the previous query. The first query is the baseline."""
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
        """Send once to each listener that has not failed: fifty runs would wait fifty times for a dead address."""
        problem = "" if listener in self._given_up else send(listener, said)
        if problem:
            self._given_up.add(listener)
        return problem


@contextmanager
def notified(tell: Tell = unheard) -> Iterator[Notifier]:
    """Yield the notifier that takes each query. Raises UsageError at once for a notify.yaml with mistakes."""
    notifier = Notifier(read_listeners(), tell)
    try:
        yield notifier
    finally:
        notifier.finish()


def happenings(row: Snapshot) -> Iterator[Happening]:
    """Yield the events of a run as it is now."""
    from rlx.evidence.verdict import HOPELESS, outlook
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
    """Build the message: a sentence, and its facts by name. Every number in it comes with the verdict."""
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
    """Notify one listener. Return what went wrong, or ""."""
    try:
        return _run(listener.command, said) if listener.command else _post(listener, said)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # An error message may contain the address, which is a secret.
        return f"could not be notified: {type(error).__name__}"


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


def notify_file() -> Path:
    """Return the path of `notify.yaml`, beside the user's hosts.yaml."""
    from rlx.hosts import user_file

    return user_file().with_name("notify.yaml")


def read_listeners() -> tuple[Listener, ...]:
    """Read `notify.yaml` beside the user's hosts.yaml; no listeners without one. No recipe and no project names any.

    Raises UsageError with file, line and key for what is not understood. The form of the file:

        - webhook: {secret: TEAM_CHAT}         # the variable with the address, which is as good as a password
          kind: feishu                         # feishu, dingtalk, wecom, or json (default)
        - command: [notify-send, rlx]          # gets the sentence as its last argument
          when: [failed, cannot become valid]  # default: all of failed, stalled, cannot become valid, finished
    """
    from rlx.hosts.inventory.host_file import read_text
    from rlx.hosts.inventory.host_yaml import Reader, read_nodes

    path = notify_file()
    text = read_text(path)
    root, problems = read_nodes(text, str(path), path.name) if text.strip() else (None, [])
    if root is None:
        return ()
    reader = Reader(str(path), problems)
    found = [_listener(reader, node, key) for node, key in reader.items(root, "")]
    reader.check()
    return tuple(found)


def _listener(reader: Any, node: Any, key: str) -> Listener:
    known = ("webhook", "kind", "command", "when")
    values = reader.section(node, key, known, {"url": "webhook", "type": "kind", "cmd": "command", "on": "when"})
    if ("webhook" in values) is ("command" in values):
        reader.complain(node, key, "must have a webhook or a command, and one of them only")
    command = tuple(
        reader.text(item, item_key) or ""
        for item, item_key in (reader.items(values["command"], f"{key}.command") if "command" in values else ())
    )
    if "command" in values and not command:
        reader.complain(node, f"{key}.command", "must be a list of a program and its arguments")
    address = _address(reader, values["webhook"], f"{key}.webhook") if "webhook" in values else ""
    form = _one_of(reader, values["kind"], f"{key}.kind", Form) if "kind" in values else Form.JSON
    chosen = reader.items(values["when"], f"{key}.when") if "when" in values else ()
    when = frozenset(_one_of(reader, item, item_key, Happening) for item, item_key in chosen)
    return Listener(command, address, form or Form.JSON, when - {None} or frozenset(Happening), reader.place(node))


def _one_of(reader: Any, node: Any, key: str, kinds: type[StrEnum]) -> Any:
    word = reader.text(node, key)
    if word is not None and word not in set(kinds):
        reader.complain(node, key, f"must be one of {', '.join(kinds)}")
        return None
    return None if word is None else kinds(word)


def _address(reader: Any, node: Any, key: str) -> str:
    """Read the address from the environment: it allows writing in that chat, so no file contains it."""
    values = reader.section(node, key, ("secret",), {"name": "secret", "env": "secret"}) if node.id == "mapping" else {}
    name = reader.text(values["secret"], f"{key}.secret") if "secret" in values else None
    if name is None:
        reader.complain(node, key, "must be {secret: NAME}, the variable that holds the address")
        return ""
    address = os.environ.get(name, "")
    if not address.startswith(("https://", "http://")):
        raise UsageError(
            f"{reader.place(node)}: {key}: the variable {name} holds no address of a webhook",
            f"export {name}=https://…",
        )
    return address
