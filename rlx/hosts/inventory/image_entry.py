"""Read the `image` of a host's entry: a name, or a map of the settings of its container."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rlx.hosts.inventory.host_yaml import Reader
from rlx.model import Image

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@-]{0,254}")
# No option of docker's own beside `ro`: rlx chooses what may be written.
_MOUNT = re.compile(r"/[^:\n]*:/[^:\n]*(:ro)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?")
_SWITCH = {"true": True, "false": False}
# The words of compose files.
_MEANT = {"image": "name", "remove": "keep", "rm": "keep", "tag": "name", "volumes": "mounts"}


def image_problem(text: str) -> str:
    return "" if _IMAGE.fullmatch(text) else f"{text!r} is no name of an image, such as trainer:latest"


def request_problem(image: Image) -> str:
    """Say what is wrong with one that may come from a file, as a plan does."""
    if problem := image_problem(image.name):
        return problem
    problems = [*map(_mount_problem, image.mounts), *([_user_problem(image.user)] if image.user is not None else [])]
    return next(filter(None, problems), "")


def read_image(reader: Reader, node: Any, key: str) -> Image | None:
    """Read the image, and leave what is wrong with it to the reader."""
    if node.id != "mapping":
        name = _checked(reader, node, key, image_problem)
        return Image(name) if name else None
    values = reader.section(node, key, tuple(_READERS), _MEANT)
    if "name" not in values:
        reader.complain(node, f"{key}.name", "required, but missing: the name of an image, such as trainer:latest")
        return None
    settings = {part: _READERS[part](reader, value, f"{key}.{part}") for part, value in values.items()}
    return Image(**settings) if settings["name"] else None


def _checked(reader: Reader, node: Any, key: str, problem_of: Callable[[str], str]) -> str | None:
    text = reader.text(node, key)
    if text is None or not (problem := problem_of(text)):
        return text
    reader.complain(node, key, problem)
    return None


def _name(reader: Reader, node: Any, key: str) -> str | None:
    return _checked(reader, node, key, image_problem)


def _keep(reader: Reader, node: Any, key: str) -> bool:
    text = _checked(reader, node, key, lambda text: "" if text in _SWITCH else "must be true or false")
    return _SWITCH.get(text or "", True)


def _mounts(reader: Reader, node: Any, key: str) -> tuple[str, ...]:
    found = (_checked(reader, item, item_key, _mount_problem) for item, item_key in reader.items(node, key))
    return tuple(mount for mount in found if mount)


def _mount_problem(text: str) -> str:
    return "" if _MOUNT.fullmatch(text) else f"{text!r} is no mount; write /on/the/host:/inside, or with :ro"


def _user(reader: Reader, node: Any, key: str) -> str | None:
    return _checked(reader, node, key, _user_problem)


def _user_problem(text: str) -> str:
    return "" if _USER.fullmatch(text) else f"{text!r} is no user; write NAME or UID:GID"


_READERS: Mapping[str, Callable[[Reader, Any, str], Any]] = {
    "name": _name,
    "keep": _keep,
    "mounts": _mounts,
    "user": _user,
}
