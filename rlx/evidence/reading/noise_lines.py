"""Join lines about noise, in their order, to events: each line says a part, and only several together say all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any

from rlx.evidence.log_grammar import NOISY, Context, Weights
from rlx.evidence.reading.aqn_lines import read_aqn_line
from rlx.evidence.run_evidence import Announcement, NoiseEvent

_SPEAKER = re.compile(r"\s*\(\w+ (pid=\d+(?:, ip=[^)\s]+)?)\)\s*")


class NoiseLines:
    """Feed it the lines that hold a needle. `events` and `announced` are up to date after each."""

    def __init__(self) -> None:
        self.events: list[NoiseEvent] = []
        self.announced: dict[Announcement, None] = {}  # in order, each once: every worker says it
        self._context: dict[str, Context] = {}
        self._weights: Weights | None = None

    def read(self, line: str, follows: int) -> None:
        """Read a line that stands behind the line of step `follows`."""
        said = read_aqn_line(line)
        if isinstance(said, Context):
            self._context[_speaker(line)] = said
        elif isinstance(said, Announcement):
            self.announced[said] = None
        elif isinstance(said, Weights):
            self._weights = said
        elif said is not None:
            self.events.append(self._complete(said, self._context.get(_speaker(line)), follows))

    def forget_after(self, step: int) -> None:
        """Training goes on from this step. Noise synced at its end belongs to the next one and is synced again."""
        self.events = [event for event in self.events if event.step is None or event.step <= step]

    def state(self) -> dict[str, Any]:
        """All that it knows, as JSON."""
        return {
            "events": [astuple(event) for event in self.events],
            "announced": list(self.announced),
            "context": self._context,
            "weights": self._weights,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.events = [NoiseEvent(*values) for values in state["events"]]
        self.announced = dict.fromkeys(Announcement(*values) for values in state["announced"])
        self._context = {speaker: Context(*values) for speaker, values in state["context"].items()}
        self._weights = Weights(*state["weights"]) if state["weights"] else None

    def _complete(self, event: NoiseEvent, context: Context | None, follows: int) -> NoiseEvent:
        if context:
            per_layer = event.per_layer or context.per_layer
            event = replace(event, step=context.step, sigma=context.sigma, per_layer=per_layer)
        elif event.step is None:
            event = replace(event, follows=follows)
        # Every worker tells of its weights, only one of its noise: whose line came is no matter.
        weights, self._weights = self._weights, None
        if weights is None:
            return event
        partly = weights.layers is not None and weights.layers < event.layers
        return replace(event, found=NOISY if partly else weights.found)


def _speaker(line: str) -> str:
    match = _SPEAKER.match(line)
    return match[1] if match else ""
