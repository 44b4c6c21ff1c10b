"""A host that answers from recordings: what each probe says is given, in the frames that the real script writes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from rlx.hosts import Completed
from rlx.model import Cmd
from tests.conftest import CASES

MACHINE = "user=ada\nuid=1000\nhome=/home/ada\ncpus=192\nmemory_kib=1000000000\nmemory_free_kib=900000000\n"


def recorded(probe: str, name: str) -> str:
    return (CASES / "probes" / probe / name / "input.txt").read_text(encoding="utf-8")


@dataclass
class RecordedHost:
    """`answers` and `inside` map a probe to its output, or to None where it gave no answer in time."""

    answers: Mapping[str, str | None]
    inside: Mapping[str, str | None] | None = None
    ahead_s: int = 0
    asked: list[bytes] = field(default_factory=list)

    def run(self, cmd: Cmd, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        self.asked.append(stdin)
        mark = cmd.argv()[-1]
        inside = self._frames(f"{mark}-inside", self.inside) if self.inside is not None else ""
        now = f"{mark} time {int(time.time()) + self.ahead_s}\n"
        output = now + self._frames(mark, self.answers) + inside + "\n" + now
        return Completed(0, output.encode(), b"")

    def stream(self, cmd: Cmd) -> AbstractContextManager[Iterator[bytes]]:
        raise NotImplementedError

    @staticmethod
    def _frames(mark: str, answers: Mapping[str, str | None]) -> str:
        return "".join(
            f"\n{mark} begin {name}\n"
            + (f"{text}\n{mark} end {name} 0\n" if text is not None else f"{mark} end {name} 124\n")
            for name, text in answers.items()
        )
