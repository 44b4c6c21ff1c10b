"""Tell a person of hosts that do not answer: once when it begins, once when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlx.plan import RunState

if TYPE_CHECKING:
    from rlx.runs import Observation, RunRef


class Outages:
    """Remembers which hosts are known to be silent. Narrates on stderr."""

    def __init__(self) -> None:
        self._silent: set[str] = set()

    def tell(self, looked: Sequence[tuple[RunRef, Observation]]) -> None:
        """Say what has changed since the last call."""
        from rlx.cli.frame.output import narrate

        silent = {ref.host: seen.detail for ref, seen in looked if seen.state is RunState.UNREACHABLE}
        for host in silent.keys() - self._silent:
            narrate(f"rlx: {host}: {silent[host]}")
        for host in self._silent - silent.keys():
            narrate(f"rlx: {host} answers again")
        self._silent = set(silent)


def state_text(seen: Observation) -> str:
    """The state; of a run whose host does not answer, the one it was last known to be in."""
    return (seen.last_known or seen.state).value
