"""The scripts of the payload that ask docker on a host."""

from __future__ import annotations

from rlx.hosts.script_parts import slim
from rlx.resources import payload_folder


def docker_script(name: str) -> str:
    """The script of that name, behind what all of them share, without its comments."""
    return "".join(
        slim((payload_folder() / part).read_text(encoding="utf-8")).decode() for part in ("ask_docker.sh", name)
    )
