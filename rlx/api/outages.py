"""Tell of hosts that do not answer: once when it begins, once when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlx.model import RunState

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.runs import Observation, RunRef


class Outages:
    """Remembers which hosts are known to be silent."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._silent: set[str] = set()

    def tell(self, looked: Sequence[tuple[RunRef, Observation]]) -> None:
        """Tell what has changed since the last call."""
        silent = {ref.host: seen.detail for ref, seen in looked if seen.state is RunState.UNREACHABLE}
        for host in silent.keys() - self._silent:
            self._tell(f"rlx: {host}: {silent[host]}")
        for host in self._silent - silent.keys():
            self._tell(f"rlx: {host} answers again")
        self._silent = set(silent)
