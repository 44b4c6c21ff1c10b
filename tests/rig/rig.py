"""Some hosts and a client in a network of their own, for tests and by hand (`python -m tests.rig up`)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.rig.capabilities import RigUnavailable, require_rig
from tests.rig.client import Client
from tests.rig.host import Host
from tests.rig.machine import Machine
from tests.rig.switch import Switch, compile_switch

CLIENT_ADDRESS = "10.77.0.254"


class Rig:
    """`with Rig(3) as rig:` gives `rig.client` and `rig.hosts`, named h1, h2, h3. Afterwards nothing of it is left.

    Raises RigUnavailable where the kernel or the tools do not allow it. Rigs do not see each other, so all use the same
    names and addresses.
    """

    def __init__(self, count: int, switch: Path | None = None, shared: Iterable[Path] = ()) -> None:
        """`switch`: the compiled program of the network, where it is there already; `shared`: folders of the tests
        that the client sees too, though they lie in /tmp."""
        require_rig()
        self.folder = Path(tempfile.mkdtemp(prefix="rlx-rig-"))
        # Users of the hosts read their files through mounts of what lies in here.
        self.folder.chmod(0o711)
        try:
            self._start(count, switch, shared)
        except BaseException:
            self.close()
            raise

    def _start(self, count: int, switch: Path | None, shared: Iterable[Path]) -> None:
        self._switch = Switch(switch or compile_switch(self.folder), count)
        self._keeper = self._start_keeper(count)
        (self.folder / "shared").mkdir()
        self._make_user_key()
        user_key = (self.folder / "id.pub").read_text(encoding="utf-8")
        self.client = Client("client", CLIENT_ADDRESS, self._switch.namespace(0), self.folder / "client", shared)
        self.hosts = [Host(i, self._switch, self.folder / f"h{i}", user_key) for i in range(1, count + 1)]
        self._boot()
        self._write_ssh_files()

    def _start_keeper(self, count: int) -> subprocess.Popen[str]:
        program = Path(__file__).with_name("keeper.py")
        keeper = subprocess.Popen(
            [sys.executable, "-I", program, self.folder, str(self._switch.pid), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C at the terminal is not for it
            encoding="utf-8",
        )
        assert keeper.stdout and keeper.stdout.readline() == "ok\n"
        return keeper

    def _make_user_key(self) -> None:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rlx-rig", "-f", self.folder / "id"], check=True
        )

    @property
    def machines(self) -> list[Machine]:
        return [self.client, *self.hosts]

    def host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def _boot(self) -> None:
        hosts_file = "".join(f"{machine.address} {machine.name}\n" for machine in self.machines)
        for machine in self.machines:
            machine.prepare(f"127.0.0.1 localhost\n{hosts_file}")
            machine.start_boot()
        for machine in self.machines:
            machine.wait_for_boot()

    def _write_ssh_files(self) -> None:
        """What a user has who has been on every host once: a key, a config with short names, known hosts."""
        folder = self.client.ssh_folder
        (self.folder / "id").rename(folder / "id_ed25519")
        (self.folder / "id.pub").rename(folder / "id_ed25519.pub")
        entries = [f"Host {host.name}\n  HostName {host.address}\n" for host in self.hosts]
        (folder / "config").write_text("".join(entries) + "Host h*\n  User root\n", encoding="utf-8")
        (folder / "known_hosts").write_text(
            "".join(f"{host.address} {host.host_key()}\n" for host in self.hosts), encoding="utf-8"
        )

    def close(self) -> None:
        """Everything of the rig is gone afterwards, whatever the tests did to it."""
        for machine in getattr(self, "hosts", []):
            machine.power_off()
        if hasattr(self, "client"):
            self.client.power_off()
        if hasattr(self, "_keeper"):
            self._keeper.communicate()
        if hasattr(self, "_switch"):
            self._switch.close()

    def __enter__(self) -> Rig:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["Rig", "RigUnavailable"]
