"""Say how more of rlx is installed, by the way in which this one was.

No index is asked for the name `rlx`: on a public one it may be anybody's.
"""

from __future__ import annotations

import json
import re
from importlib import metadata
from urllib.parse import unquote, urlsplit

_EXTRA = re.compile(r"""\s*;\s*extra\s*==\s*["']([\w-]+)["']\s*$""")


def install_command(extra: str) -> str:
    """Write the command that installs what an extra of rlx needs: a checkout by its path, else packages by name."""
    if folder := _checkout():
        return f"pip install -e '{folder}[{extra}]'"
    return "pip install " + " ".join(f"'{requirement}'" for requirement in _requirements(extra))


def _checkout() -> str:
    """The folder from which rlx was installed; "" for a wheel. Source: PEP 610, direct_url.json."""
    try:
        origin = json.loads(metadata.distribution("rlx").read_text("direct_url.json") or "{}")
        return unquote(urlsplit(origin["url"]).path) if "dir_info" in origin else ""
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""


def _requirements(extra: str) -> list[str]:
    try:
        lines = metadata.requires("rlx") or []
    except metadata.PackageNotFoundError:
        lines = []
    matches = ((line, _EXTRA.search(line)) for line in lines)
    found = [line[: match.start()] for line, match in matches if match and match[1] == extra]
    return found or [f"what the extra {extra} of rlx's pyproject.toml names"]
