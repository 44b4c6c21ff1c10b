"""A real sshd on 127.0.0.1, and the ssh config with which rlx finds it: a host for tests.

    from tests.loopback import Loopback, loopback  # the import of the fixture makes it known to the module

    def test_something(loopback: Loopback) -> None:
        transport_for(loopback.place).run(Cmd("true"), timeout_s=30)

- `loopback.place` is the host for rlx, `loopback.destination` ("loop") its alias in `loopback.config`, which the
  fixture puts into RLX_SSH_CONFIG. `loopback.port`, `.user`, `.known_hosts` and `.identity` are what the alias means.
- Commands find a private `loopback.home` as HOME, with a `.bashrc` that a test may write (`loopback.write_bashrc`), and
  a plain PATH; nothing of the real account's shell start-up is read.
- `stop()`, `start()`: the listener; connections that are open stay. `cut()`: end the open connections at once.
- `change_host_key()`, `forget_host_key()`, `deny_user()`: what then fails to connect (new connections only).
- `limit_sessions(most)`: how many may share a connection.
- `add_config(text)`: more lines for the ssh config, before the alias; first match wins.

Each test has its own sshd on its own port, so they run in parallel. It needs `sshd`, and root or a user of its own.
"""

from __future__ import annotations

import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rlx.model import Place
from tests.runs.toys import command_line

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Loopback:
    destination = "loop"
    user = getpass.getuser()

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        """`environment`: more variables for the sessions, such as DOCKER_HOST."""
        self._folder = folder
        self._environment = environment or {}
        self._listener: subprocess.Popen[bytes] | None = None
        self._denied = False
        self._most_sessions = 10
        self._startups = "10:30:100"
        self.home = folder / "home"
        self.identity = folder / "identity"
        self.config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"
        self.port = free_port()
        self.home.mkdir(parents=True)
        _make_key(self.identity)
        self.change_host_key()
        self._learn_host_key()
        self.config.write_text(self._client_config(), encoding="utf-8")

    @property
    def place(self) -> Place:
        return Place("loop", self.destination)

    def place_via(self, via: str) -> Place:
        return Place("loop", self.destination, via=via)

    def _client_config(self) -> str:
        return (
            f"Host {self.destination}\n  HostName 127.0.0.1\n  Port {self.port}\n  User {self.user}\n"
            f"  IdentityFile {self.identity}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
        )

    def add_config(self, text: str) -> None:
        self.config.write_text(text + "\n" + self.config.read_text(encoding="utf-8"), encoding="utf-8")

    def write_bashrc(self, text: str) -> None:
        (self.home / ".bashrc").write_text(text, encoding="utf-8")

    def _learn_host_key(self) -> None:
        key = (self._folder / "host_key.pub").read_text(encoding="utf-8")
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key}", encoding="utf-8")

    def change_host_key(self) -> None:
        for path in (self._folder / "host_key", self._folder / "host_key.pub"):
            path.unlink(missing_ok=True)
        _make_key(self._folder / "host_key")
        self._restart_if_running()

    def forget_host_key(self) -> None:
        self.known_hosts.write_text("", encoding="utf-8")

    def deny_user(self) -> None:
        self._denied = True
        self._restart_if_running()

    def limit_sessions(self, most: int) -> None:
        """How many may share a connection."""
        self._most_sessions = most
        self._restart_if_running()

    def limit_startups(self, most: str) -> None:
        """How many may be logging in, as sshd's MaxStartups says it."""
        self._startups = most
        self._restart_if_running()

    def _restart_if_running(self) -> None:
        if self._listener is not None:
            self.stop()
            self.start()

    def start(self) -> None:
        config = self._folder / "sshd_config"
        config.write_text(self._server_config(), encoding="utf-8")
        Path("/run/sshd").mkdir(exist_ok=True)
        log = (self._folder / "sshd.log").open("ab")
        with log:
            # In its own session: connections are its children, and `cut` finds them by that.
            self._listener = subprocess.Popen(
                [_sshd(), "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._await_listener()

    def _server_config(self) -> str:
        session = {"HOME": str(self.home), "PATH": _PATH, **self._environment}
        keys = self._folder / "authorized_keys"
        keys.write_text(self.identity.with_suffix(".pub").read_text(encoding="utf-8"), encoding="utf-8")
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self._folder / 'host_key'}",
            f"AuthorizedKeysFile {keys}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "PermitUserRC no",
            f"MaxSessions {self._most_sessions}",
            f"MaxStartups {self._startups}",
            f"PidFile {self._folder / 'sshd.pid'}",
            "SetEnv " + " ".join(f'"{name}={text}"' for name, text in session.items()),
        ]
        return "\n".join([*lines, *([f"DenyUsers {self.user}"] if self._denied else [])]) + "\n"

    def _await_listener(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert self._listener is not None and self._listener.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def __enter__(self) -> Loopback:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self.stop()

    def log(self) -> str:
        return (self._folder / "sshd.log").read_text(errors="replace", encoding="utf-8")

    def stop(self) -> None:
        """Nothing listens any more. Open connections stay, as those of a real sshd do."""
        if self._listener is not None:
            # Halted, so that no connection comes after the count: nobody could find it later.
            self._listener.send_signal(signal.SIGSTOP)
            self._sessions_kept = self.sessions()
            self._listener.terminate()
            self._listener.send_signal(signal.SIGCONT)
            self._listener.wait()
            self._listener = None
            self._await_silence()

    def _await_silence(self) -> None:
        """The process of a connection that just came holds the listening socket until it runs for the first time."""
        deadline = time.monotonic() + 30
        while True:
            with socket.socket() as probe, suppress(OSError):
                # With this only a socket that listens is in the way.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", self.port))
                return
            assert time.monotonic() < deadline, f"somebody still listens on port {self.port}"
            time.sleep(0.02)

    def sessions(self) -> list[int]:
        """The processes of the open connections: for a user who is not root, sshd has two for each."""
        own = _sshds_of(self._listener.pid) if self._listener is not None else []
        return [*_alive(getattr(self, "_sessions_kept", [])), *own]

    def shells(self) -> list[int]:
        """The processes that the open connections serve."""
        connections = self.sessions()
        return [pid for connection in connections for pid in _children(connection) if pid not in connections]

    def cut(self) -> None:
        for pid in self.sessions():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if "sshd" in command_line(pid)]


def _sshds_of(parent: int) -> list[int]:
    """Its children, and their own that are sshd: what they serve is not part of the connection."""
    children = _children(parent)
    return children + [pid for child in children for pid in _alive(_children(child))]


def _children(parent: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()]
    except OSError:
        return []


def _sshd() -> str:
    found = shutil.which("sshd", path=_PATH)
    if found is None:
        pytest.skip("needs sshd: make rig")
    return found


def _make_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)


def free_port(address: str = "127.0.0.1") -> int:
    """Below those that the kernel gives to outgoing connections: it must still be free when it is taken, and once more.

    Each worker of the tests has a share of its own, since nobody else may draw the same one meanwhile.
    """
    chance = random.SystemRandom()  # the shared one starts with the same seed in every test process
    first = 20_000 + 1_000 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 12)
    while True:
        port = chance.randrange(first, first + 1_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((address, port))
            return port


@pytest.fixture
def loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    host = Loopback(tmp_path / "loopback")
    monkeypatch.setenv("RLX_SSH_CONFIG", str(host.config))
    with host:
        yield host
