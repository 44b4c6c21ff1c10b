"""Run commands inside a container, by `docker exec` on its host.

Neither docker nor its daemon ends a command whose caller is gone. It ends as on any other host: its stdin ends, the
feeder inside sees it. The environment is the one that the image and `docker run` declare, for that is the container's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from rlx.errors import RlxError, UsageError
from rlx.hosts.connection import Connection, ConnectionFailure, Session
from rlx.hosts.host_errors import ContainerGone, Unreachable
from rlx.hosts.local import LocalTransport, clean_environment
from rlx.hosts.process import ProcessSession, process_session
from rlx.hosts.remote_shell import READ_AND_RUN, RemoteTransport
from rlx.hosts.transport import shown

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_CONNECTION_FAILED = 255


class ContainerTransport(RemoteTransport):
    """`container` is a name or id. Raises UsageError if it can be neither."""

    def __init__(self, inner: LocalTransport | RemoteTransport, container: str) -> None:
        if not _NAME.fullmatch(container):
            raise UsageError(f"{container!r} is not a container's name or id", "see `docker ps` on the host")
        connection = inner.connection if isinstance(inner, RemoteTransport) else _LocalConnection()
        entry = f"exec docker exec -i {container} {READ_AND_RUN}"
        super().__init__(_ContainerConnection(connection, container), entry, environment="")


class _LocalConnection:
    host = "local"

    @contextmanager
    def open(self, line: str, *, streaming: bool) -> Iterator[ProcessSession]:
        docker = {name: text for name, text in os.environ.items() if name.startswith("DOCKER_")}
        with process_session(["sh", "-c", line], clean_environment(os.environ) | docker) as session:
            yield session

    def open_ahead(self, line: str) -> None:
        """Do nothing, because docker is on this machine and not far away."""

    def explain(self, failure: ConnectionFailure) -> RlxError:
        return Unreachable(f"local: exit {failure.code} before the command began: {failure.said}")


@dataclass(frozen=True, slots=True)
class _DockerMessage:
    says: str
    meaning: str
    hint: str


_WORDINGS = (
    _DockerMessage("no such container", "there is no such container", "see `docker ps -a` on the host"),
    _DockerMessage("is not running", "the container is not running", "on the host: docker start {container}"),
    _DockerMessage("is paused", "the container is paused", "on the host: docker unpause {container}"),
    _DockerMessage("is restarting", "the container keeps restarting", "on the host: docker logs {container}"),
    _DockerMessage(
        "permission denied",
        "this user may not use docker",
        "on the host: sudo usermod -aG docker USER, then log in anew (an open connection of rlx lasts two minutes)",
    ),
    _DockerMessage("connect to the docker daemon", "docker is not running", "on the host: sudo systemctl start docker"),
    _DockerMessage(
        "docker: .*not found|docker: no such file", "the host has no docker", "install docker, or leave out --container"
    ),
    _DockerMessage(
        "executable file not found|exec failed", "the container has no sh", "rlx needs a POSIX shell in the container"
    ),
)


class _ContainerConnection:
    def __init__(self, connection: Connection, container: str) -> None:
        self.host = f"{connection.host}, container {container}"
        self._connection = connection
        self._container = container

    def open(self, line: str, *, streaming: bool) -> AbstractContextManager[Session]:
        return self._connection.open(line, streaming=streaming)

    def open_ahead(self, line: str) -> None:
        self._connection.open_ahead(line)

    def explain(self, failure: ConnectionFailure) -> RlxError | None:
        if failure.code == _CONNECTION_FAILED:
            return self._connection.explain(failure)
        if failure.began:
            return self._stopped(failure)
        for wording in _WORDINGS:
            if re.search(wording.says, failure.said, re.IGNORECASE):
                return self._gone(wording.meaning, wording.hint.format(container=self._container), failure)
        return self._connection.explain(failure)

    def _stopped(self, failure: ConnectionFailure) -> ContainerGone:
        hint = f"on the host: docker ps -a --filter name={self._container}"
        error = self._gone("the container stopped while the command ran", hint, failure)
        error.arrived = True
        return error

    def _gone(self, meaning: str, hint: str, failure: ConnectionFailure) -> ContainerGone:
        said = failure.said.splitlines()
        words = f" (docker: {said[-1].strip()})" if said and not failure.began else ""
        return ContainerGone(f"{self.host}: {meaning}{words}; command: {shown(failure.cmd)}", hint)
