"""The numbers for the rules on TRL, from its effective settings. None: not known before the start."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.planning.rules.facts import RecipeFacts


@dataclass(frozen=True)
class TrlFacts(RecipeFacts):
    """Steps are as configured, and the data is repeated as often as they need."""

    @property
    def steps_of_data(self) -> int | None:
        return None

    @property
    def steps(self) -> int | None:
        return self.count("max_steps")


BackendFacts = TrlFacts
