"""A host: a machine with processes, an sshd on port 22, users and, on request, a Docker Engine of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from tests.rig.docker import Engine
from tests.rig.equipment import EquippedMachine
from tests.rig.machine import file_text
from tests.rig.switch import Switch

_SSHD_CONFIG = """\
Port 22
AddressFamily inet
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
Subsystem sftp internal-sftp
"""
_PATIENCE_S = 120


class Host(EquippedMachine):
    kind = "host"
    new_namespaces = ("--mount", "--uts", "--pid", "--fork", "--kill-child")
    entered = ("--mount", "--uts", "--net", "--pid")

    def __init__(self, number: int, switch: Switch, folder: Path, user_key: str) -> None:
        super().__init__(f"h{number}", f"10.77.0.{number}", switch.namespace(number), folder)
        self._number, self._switch, self.user_key = number, switch, user_key

    # ---- its network ----

    def delay(self, round_trip_ms: float) -> None:
        """What every round trip to this host takes longer, half of it each way."""
        self._switch.tell("delay", self._number, int(round_trip_ms * 500))

    def cut(self) -> None:
        """Pull the cable: nothing arrives, nobody is told."""
        self._switch.tell("cut", self._number, 1)

    def heal(self) -> None:
        self._switch.tell("cut", self._number, 0)

    def rate(self, bytes_per_s: int) -> None:
        """How much the line carries, each way; 0: no limit."""
        self._switch.tell("rate", self._number, bytes_per_s)

    # ---- its life ----

    def prepare(self, hosts_file: str) -> None:
        super().prepare(hosts_file)
        (self.folder / "etc/ssh/sshd_config").write_text(_SSHD_CONFIG, encoding="utf-8")
        self.authorize("root")
        self._new_key()

    def reboot(self) -> None:
        """Power off without a farewell to anybody, then on: all processes and /run, /dev are gone, the disk stays."""
        self.cut()
        self.power_off()
        self.__dict__.pop("docker", None)
        self.start_boot()
        self.wait_for_boot()
        self.heal()

    # ---- its sshd ----

    def break_connections(self) -> int:
        """Kill the processes of the connections that are there; to how many. The port stays open."""
        listener = int(self.path("/run/sshd.pid").read_text(encoding="utf-8"))
        found = [str(pid) for pid, name in self.processes().items() if name.startswith("sshd") and pid != listener]
        if found:
            self.run("kill", "-s", "KILL", *found, check=False)
        return len(found)

    def stop_sshd(self) -> None:
        """The port is closed, connections that are there break."""
        # Who is killed has the port until it has ended.
        _wait_until(lambda: not self.kill("sshd") + self.kill("sshd-session"), "end of sshd")
        self.path("/run/sshd.pid").unlink(missing_ok=True)

    def start_sshd(self) -> None:
        # The process of a connection that just came holds the port until it runs for the first time.
        _wait_until(lambda: not self.run("/usr/sbin/sshd", "-E", "/run/sshd.log", check=False).returncode, "free port")
        _wait_until(lambda: bool(file_text(self.path("/run/sshd.pid"))), f"sshd of {self.name}")

    def restart_sshd(self) -> None:
        """As an administrator does: new connections see the new configuration, those that are there live on."""
        pid = self.path("/run/sshd.pid").read_text(encoding="utf-8").strip()
        self.run("sh", "-c", f"kill {pid}; while [ -e /run/sshd.pid ]; do sleep 0.01; done")
        self.start_sshd()

    def configure_sshd(self, line: str) -> None:
        """For example `DenyUsers ada` or `AllowUsers *@10.77.0.1`. Holds for new connections."""
        with (self.folder / "etc/ssh/sshd_config").open("a", encoding="utf-8") as config:
            config.write(f"{line}\n")
        self.restart_sshd()

    def change_host_key(self) -> None:
        """As after a new installation: the client still knows the old key."""
        self._new_key()
        self.restart_sshd()

    def host_key(self) -> str:
        return (self.folder / "etc/ssh/ssh_host_ed25519_key.pub").read_text(encoding="utf-8").rsplit(" ", 1)[0]

    def shift_clock(self, offset: str) -> None:
        """What programs of new ssh connections take for the time, of files too; `offset` as for faketime(1): `+1d`."""
        (clock,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
        files = "/usr/local/sbin/file_times.so"
        source = Path(__file__).with_name("file_times.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", f"{self.folder}{files}", source], check=True)
        faked = f"LD_PRELOAD={clock}:{files} FAKETIME={offset} FAKETIME_DONT_FAKE_MONOTONIC=1"
        self.configure_sshd(f"SetEnv {faked}")
        # Those that begin with an empty environment too. For all of the host at once, it would take down its sshd.
        self.wrap_program("sh", f"export {faked}")

    def _new_key(self) -> None:
        key = self.folder / "etc/ssh/ssh_host_ed25519_key"
        key.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", key], check=True)

    # ---- its containers ----

    @cached_property
    def docker(self) -> Engine:
        """Its Docker Engine, started when first asked for."""
        return Engine(self)


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"no {what} after {_PATIENCE_S} s"
        time.sleep(0.01)
