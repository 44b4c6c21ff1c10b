"""The network of a rig: starts `switch.c` and speaks to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.rig.capabilities import RigUnavailable

FIRST_NAMESPACE = 100


def compile_switch(folder: Path) -> Path:
    program = folder / "switch"
    source = Path(__file__).with_name("switch.c")
    done = subprocess.run(
        ["gcc", "-O1", "-o", program, source], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    if done.returncode:
        raise RigUnavailable(f"cannot compile {source.name}: {done.stderr.strip()}")
    return program


class Switch:
    def __init__(self, program: Path, count: int) -> None:
        self._process = subprocess.Popen(
            [program, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._commands, self._answers = self._process.stdin, self._process.stdout
        if self._answers.readline() != "ok\n":
            raise RigUnavailable(self._process.stderr.read().strip())

    @property
    def pid(self) -> int:
        return self._process.pid

    def namespace(self, number: int) -> str:
        """The file that names the network of a machine; 0 is the client."""
        return f"/proc/{self.pid}/fd/{FIRST_NAMESPACE + number}"

    def tell(self, what: str, number: int, value: int) -> None:
        """Returns when it holds for every packet from now on."""
        self._commands.write(f"{what} {number} {value}\n")
        self._commands.flush()
        assert self._answers.readline() == "ok\n"

    def close(self) -> None:
        self._process.communicate()
