"""What a host has or lacks: users, devices, programs, room on its disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.rig.machine import Machine

NPU_SMI = Path(__file__).with_name("npu_smi")


class EquippedMachine(Machine):
    user_key: str

    def add_user(self, name: str, uid: int, *, docker: bool = False) -> None:
        """Somebody without rights of their own, let in by the same key; `docker`: a member of that group."""
        etc = self.folder / "etc"
        _append(etc / "passwd", f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash")
        _append(etc / "shadow", f"{name}:*:19000:0:99999:7:::")
        _append(etc / "group", f"{name}:x:{uid}:")
        (self.folder / "home" / name).mkdir(mode=0o700)
        self.authorize(name)
        self.run("chown", "-R", f"{uid}:{uid}", f"/home/{name}")
        if docker:
            self.run("sed", "-i", f"s/^docker:.*[^:]$/&,{name}/; s/^docker:.*:$/&{name}/", "/etc/group")

    def authorize(self, name: str) -> None:
        folder = self.folder / ("root" if name == "root" else f"home/{name}") / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "authorized_keys").write_text(self.user_key)

    def add_devices(self, *names: str) -> None:
        """Device nodes like `davinci0`; they open and read as empty. Gone after a reboot."""
        for name in names:
            os.mknod(self.path(f"/dev/{name}"), 0o666 | 0o020000, os.makedev(1, 3))

    def play_npu_smi(self, recording: str, replace: Mapping[str, str] | None = None) -> None:
        """Give it an `npu-smi` that plays `npu_smi/<recording>.txt`, with real pids in place of recorded ones.

        Containers that mount the host's /usr see it too. Its calls are noted in /tmp/npu-smi.calls.
        """
        text = (NPU_SMI / f"{recording}.txt").read_text()
        for old, new in (replace or {}).items():
            assert len(new) <= len(old.ljust(14)), "the columns have fixed widths"
            text = text.replace(f"| {old:<14}|", f"| {new:<14}|")
        folder = self.folder / "usr/local/sbin"
        (folder / "npu-smi.recording").write_text(text)
        shutil.copy(NPU_SMI / "npu-smi", folder)

    def remove_program(self, name: str) -> None:
        """As if it were not installed, until a reboot; in new containers too."""
        self._cover(name, "mknod $upper/$name c 0 0")  # how an overlay says: not here

    def replace_program(self, name: str, other: str) -> None:
        """For example `sh` by `busybox`, until a reboot; in new containers too."""
        self._cover(name, f"cp {_found(other)} $upper/$name")

    def _cover(self, name: str, change: str) -> None:
        """Put a layer with one change over the folder that has the program."""
        script = f"""
        set -e
        folder=$1 name=$2 layer=$(mktemp -d /run/layer-XXXXXX)
        upper=$layer/upper
        mkdir $upper $layer/work
        {change}
        mount -t overlay -o lowerdir=$folder,upperdir=$upper,workdir=$layer/work overlay $folder
        """
        self.run("bash", "-c", script, "cover", str(Path(_found(name)).parent.resolve()), name)

    def limit_disk(self, path: str, size: int) -> None:
        """Make `path` an empty disk of `size` bytes, until a reboot."""
        self.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)


def _found(name: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is not installed"
    return path


def _append(file: Path, line: str) -> None:
    with file.open("a") as opened:
        opened.write(f"{line}\n")
