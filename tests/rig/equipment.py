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
        (folder / "authorized_keys").write_text(self.user_key, encoding="utf-8")

    def add_devices(self, *names: str) -> None:
        """Device nodes like `davinci0`; they open and read as empty. Gone after a reboot."""
        for name in names:
            os.mknod(self.path(f"/dev/{name}"), 0o666 | 0o020000, os.makedev(1, 3))

    def play_npu_smi(self, recording: str, replace: Mapping[str, str] | None = None) -> None:
        """Give it an `npu-smi` that plays `npu_smi/<recording>.txt`, with real pids in place of recorded ones.

        Containers that mount the host's /usr see it too. Its calls are noted in /tmp/npu-smi.calls.
        """
        text = (NPU_SMI / f"{recording}.txt").read_text(encoding="utf-8")
        for old, new in (replace or {}).items():
            assert len(new) <= len(old.ljust(14)), "the columns have fixed widths"
            text = text.replace(f"| {old:<14}|", f"| {new:<14}|")
        folder = self.folder / "usr/local/sbin"
        (folder / "npu-smi.recording").write_text(text, encoding="utf-8")
        shutil.copy(NPU_SMI / "npu-smi", folder)

    def remove_program(self, name: str) -> None:
        """As if it were not installed, until a reboot; in new containers too."""
        _found(name)
        for folder in dict.fromkeys(Path(folder).resolve() for folder in os.get_exec_path()):
            if (folder / name).exists():
                self._change(folder, f"rm {name}")

    def replace_program(self, name: str, other: str) -> None:
        """For example `sh` by `busybox`, until a reboot; in new containers too."""
        self._change(_folder_of(name), f"cp --remove-destination {_found(other)} {name}")

    def wrap_program(self, name: str, *lines: str) -> None:
        """Have these lines of bash run before each start of it, until a reboot; in new containers too."""
        folder = _folder_of(name)
        script = "\n".join(["#!/bin/bash", *lines, f'exec -a {name} {folder}/{name}.own "$@"', ""])
        self._change(folder, f"mv {name} {name}.own; cat >{name}; chmod 755 {name}", script)

    def _change(self, folder: Path, change: str, stdin: str = "") -> None:
        """Run a script in the folder, which gets a layer of this host's own over it."""
        script = f"""
        set -e
        layer=/run/layer$1
        if [ ! -d $layer ]; then
            mkdir -p $layer/upper $layer/work
            mount -t overlay -o lowerdir=$1,upperdir=$layer/upper,workdir=$layer/work overlay $1
        fi
        cd $1
        {change}
        """
        self.run("bash", "-c", script, "change", str(folder), stdin=stdin.encode())

    def limit_disk(self, path: str, size: int) -> None:
        """Make `path` an empty disk of `size` bytes, until a reboot."""
        self.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)


def _found(name: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is not installed"
    return path


def _folder_of(name: str) -> Path:
    return Path(_found(name)).parent.resolve()


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")
