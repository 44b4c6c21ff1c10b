"""The scripts of the payload that ask docker on a host."""

from __future__ import annotations

from rlx.hosts.script_parts import slim
from rlx.resources import payload_folder


def docker_script(*names: str) -> str:
    """The scripts of these names as one, behind what all of them share, without their comments."""
    return "".join(
        slim((payload_folder() / part).read_text(encoding="utf-8")).decode() for part in ("ask_docker.sh", *names)
    )
