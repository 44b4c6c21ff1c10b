"""Decide for the nodes of a run, before any has started, where the head's Ray listens, and by which token.

Nothing but the launch reaches all of them, and none of them can be asked once the laptop is closed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rlx.errors import RlxError
from rlx.model import Cluster
from rlx.runs.run import RunRef

RAY_TOKEN = "RLX_RAY_TOKEN"
# Below the ports that Linux gives to whoever asks for any (32768 and up).
_FIRST_PORT, _PORTS = 20000, 10000
_KEY = "cluster.key"


def cluster_file(cluster: Cluster, ref: RunRef) -> str:
    """`NODE NODES ADDRESS:PORT FOLDER`, as supervise.sh passes it on. Port and folder follow from the run's id.

    In a job the head writes its address there, which nobody knows before.

    The folder below /tmp is called alike on all nodes: Ray takes that of its head, and a back-end has one path for all.
    """
    digest = hashlib.sha256(ref.head_id.encode()).hexdigest()
    port = _FIRST_PORT + int(digest, 16) % _PORTS
    return f"{cluster.node} {cluster.nodes} {cluster.head}:{port} /tmp/rlx-{digest[:6]}\n"


def ray_tokens(home: Path, refs: Sequence[RunRef]) -> dict[str, str]:
    """The tokens of these runs' Rays by the ids of their heads, the same at each call. Raises RlxError.

    They follow from the ids and a key in rlx's home, so that a launch that was interrupted between two hosts goes on.
    """
    key = _key(home / _KEY)
    return {ref.run_id: hmac.new(key, ref.run_id.encode(), hashlib.sha256).hexdigest() for ref in refs if not ref.node}


def _key(path: Path) -> bytes:
    """Read or make the key, for its user alone; made once, by whichever rlx is first."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not path.exists():
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
            with suppress(FileExistsError):
                os.link(scratch, path)
            scratch.unlink()
        return path.read_bytes()
    except OSError as error:
        raise RlxError(f"{path}: {error.strerror}", "rlx keeps a key there from which runs get their tokens") from None
