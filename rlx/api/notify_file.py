"""Read who is to be told of runs: `notify.yaml` beside the user's hosts.yaml. No project and no recipe names anybody.

- webhook: {secret: TEAM_CHAT}         # the variable that holds the address, which is as good as a password
  kind: feishu                         # feishu, dingtalk, wecom, or json (default)
- command: [notify-send, rlx]          # gets the sentence as its last argument
  when: [failed, cannot become valid]  # default: all of failed, stalled, cannot become valid, finished
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rlx.errors import UsageError

_MOST_BYTES = 100_000


class Happening(StrEnum):
    """What a person wants to be told of a run."""

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


def notify_file() -> Path:
    from rlx.hosts import user_file

    return user_file().with_name("notify.yaml")


def read_listeners() -> tuple[Listener, ...]:
    """Read the file; nobody without one. Raises UsageError with file, line and key for what cannot be meant."""
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
    """The address from the environment: whoever has it can write in that chat, so no file holds it."""
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
