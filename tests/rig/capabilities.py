"""What the rig needs from the machine that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

_TOOLS = ("gcc", "nsenter", "unshare", "ssh", "ssh-keygen", "/usr/sbin/sshd")


class RigUnavailable(Exception):
    """This machine cannot carry the rig; the message says why."""


@cache
def require_rig() -> None:
    """Raises RigUnavailable with the first thing that is missing."""
    if os.geteuid() != 0:
        raise RigUnavailable("only root may create network namespaces")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise RigUnavailable(f"missing {', '.join(missing)}; 'make rig' installs them")
    if not Path("/dev/net/tun").exists():
        raise RigUnavailable("the kernel has no TUN devices (/dev/net/tun)")
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "true"],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    if tried.returncode:
        raise RigUnavailable(f"the kernel refuses namespaces: {tried.stderr.strip()}")


def require_docker() -> None:
    """Raises RigUnavailable where no Docker Engine is installed."""
    missing = [tool for tool in ("docker", "dockerd", "containerd", "runc") if which(tool) is None]
    if missing:
        raise RigUnavailable(f"missing {', '.join(missing)}; 'make rig' installs them")


def which(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
