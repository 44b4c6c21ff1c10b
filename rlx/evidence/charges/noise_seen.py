"""Count what a log shows of noise, for a run of which nobody says what it promised."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.evidence.charges.promised_noise import training_steps
from rlx.evidence.run_evidence import ROLLOUT, Evidence, NoiseEvent
from rlx.evidence.verdict import counted

NEVER = "never"


@dataclass(frozen=True, slots=True)
class NoiseSeen:
    """`steps` of `of` logged ones announce noise; `lines` more do so without naming a step. `layers`: of the last."""

    steps: int
    of: int
    lines: int
    layers: int
    measured: tuple[float, ...]

    @property
    def cell(self) -> str:
        """`19 of 20 steps · 5 layers`, for a table; `never` where nothing announces noise."""
        if not self.layers:
            return NEVER
        return f"{self._where} · {counted(self.layers, 'layer')}"

    @property
    def sentence(self) -> str:
        if not self.layers:
            return "no line announces noise"
        verb = "announces" if (self.steps or self.lines) == 1 else "announce"
        how = f"effective std {self.measured[0]:.2g} → {self.measured[-1]:.2g}" if self.measured else "never measured"
        return f"{self._where} {verb} noise on {counted(self.layers, 'layer')}; {how}"

    @property
    def _where(self) -> str:
        return (
            f"{self.steps} of {counted(self.of, 'step')}"
            if self.steps or not self.lines
            else counted(self.lines, "line")
        )


def noise_seen(evidence: Evidence) -> NoiseSeen:
    """Count noise on rollout weights, wherever it is told."""
    noisy = [event for event in evidence.noise if event.is_noisy and event.phase == ROLLOUT]
    logged = training_steps(evidence)
    steps = {event.step for event in noisy if event.step is not None}
    return NoiseSeen(
        steps=len(steps.intersection(logged)),
        of=len(logged),
        lines=sum(event.step is None for event in noisy),
        layers=noisy[-1].layers if noisy else 0,
        measured=tuple(std for event in noisy if (std := _measured(event)) is not None),
    )


def _measured(event: NoiseEvent) -> float | None:
    return event.effective_std if event.elements else None
