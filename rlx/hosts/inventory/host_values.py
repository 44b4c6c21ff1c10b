"""Check single values of a host's entry. Each function returns what is wrong with one, or nothing."""

from __future__ import annotations

import re

from rlx.secret_text import is_secret, names_secret

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_URL_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^/:\[\]]+)(:[0-9]{1,5})?/?")


def destination_problem(text: str) -> str:
    """Say what keeps a text from being an ssh destination, without showing it where it may hold a password."""
    user, at, address = text.removeprefix("ssh://").rpartition("@")
    if at and ":" in user:
        return "holds a password; ssh takes none: use a key, and write USER@HOST"
    if not text or text.startswith("-") or address.startswith("-") or re.search(r"[\s\x00-\x1f\x7f]", text):
        return f"{text!r} is no ssh destination; write USER@HOST, ssh://USER@HOST:PORT or a name of your ssh config"
    if text.startswith("ssh://"):
        url = _URL_ADDRESS.fullmatch(address)
        is_sound = url is not None and 0 < int((url[2] or ":22")[1:]) < 1 << 16
        return "" if is_sound else f"{text!r} is not of the form ssh://USER@HOST:PORT"
    if text.startswith(("http://", "https://")):
        return (
            f"{text!r} is no ssh destination; of a Ray cluster, name the head, which ssh reaches, and beside that "
            "its dashboard: --ray ADDRESS"
        )
    if "/" in text or address.count(":") == 1:
        return f"{text!r} is no ssh destination; a port is written ssh://USER@HOST:PORT"
    return ""


def name_problem(name: str) -> str:
    if NAME.fullmatch(name):
        return ""
    return "a name is up to 64 letters, digits, '.', '_' and '-', and starts with a letter or digit"


def container_problem(text: str) -> str:
    return "" if _CONTAINER.fullmatch(text) else f"{text!r} is no name or id of a container"


def path_problem(text: str) -> str:
    if text == "~" or (text.startswith(("/", "~/")) and "\n" not in text):
        return ""
    return f"{text!r} is no path on the host: it must start with / or ~/"


def absolute_problem(text: str) -> str:
    if text.startswith("/") and "\n" not in text:
        return ""
    return f"{text!r} is no absolute path: all users of the host must mean the same folder"


def address_problem(text: str) -> str:
    if _ADDRESS.fullmatch(text):
        return ""
    return f"{text!r} is no name or number of a host in its network, such as 192.0.2.7; a port is rlx's own choice"


def plain_address(destination: str) -> str | None:
    """Return the address in an ssh destination that is the same for every host: a number or a full name, no alias."""
    host = destination.removeprefix("ssh://").rpartition("@")[2].rstrip("/")
    host = re.sub(r":[0-9]+$", "", host) if destination.startswith("ssh://") else host
    return host if "." in host and not address_problem(host) else None


def variable_problem(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        return "is no name of an environment variable (letters, digits and '_')"
    return "names that start with RLX_ belong to rlx" if name.startswith("RLX_") else ""


def public_problem(name: str, value: str) -> str:
    """Say what keeps a variable from standing in a file as plain text."""
    if names_secret(name):
        return f"looks like a secret; name it in the recipe instead: secrets: [{name}]"
    if is_secret(name, value):
        return f"holds a password; write it as proxies: {{{name}: {{secret: NAME}}}}, the value then comes from you"
    return variable_problem(name)
