"""Tell how this rlx was installed: the command that adds an extra, and which of its files were replaced since.

No index is asked for rlx by name: on a public one, it is another project.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rlx.other_owners import DISTRIBUTION

_EXTRA = re.compile(r"""\s*;\s*extra\s*==\s*["']([\w-]+)["']\s*$""")


def install_command(extra: str) -> str:
    """Return the command that installs an extra of rlx: from the checkout by its path, else its packages by name."""
    if folder := _checkout():
        return f"pip install -e '{folder}[{extra}]'"
    return "pip install " + " ".join(f"'{requirement}'" for requirement in _requirements(extra))


def _checkout() -> str:
    """Return the folder from which rlx was installed; "" for a wheel. Source: PEP 610, direct_url.json."""
    try:
        origin = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        return unquote(urlsplit(origin["url"]).path) if "dir_info" in origin else ""
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""


def _requirements(extra: str) -> list[str]:
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        lines = []
    matches = ((line, _EXTRA.search(line)) for line in lines)
    found = [line[: match.start()] for line, match in matches if match and match[1] == extra]
    return found or [f"what the extra {extra} of rlx's pyproject.toml names"]


def replaced_files() -> list[str]:
    """List the files of rlx that are missing or differ from those that were installed; none for a checkout.

    Source: RECORD of the installed distribution (PEP 376), whose digests are those of the files that pip wrote.
    """
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    ours = (file for file in files if file.hash and (file.parts[0] == "rlx" or file.name == "rlx"))
    return sorted(str(file) for file in ours if _digest(Path(str(file.locate()))) != (file.hash and file.hash.value))


def _digest(path: Path) -> str:
    """Return the SHA-256 as RECORD writes it; "" for an unreadable file."""
    try:
        digest = hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
