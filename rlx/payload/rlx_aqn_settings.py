"""Read the settings of the noise: the content of aqn.json, and sigma for each step."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

PRINTED_LAYER_TYPE = {"rmsnorm": "RMSNorm", "linear": "linear"}
_NOTHING: Mapping[int, float] = MappingProxyType({})
SCHEDULES, ADAPTIVE = ("geometric", "linear", "constant"), "adaptive"


def settings_file() -> Path | None:
    """Return the path of the run's settings; None for a run without noise that is not watched for having none."""
    run_dir = os.environ.get("RLX_RUN_DIR")
    path = Path(run_dir, "payload", "aqn.json") if run_dir else None
    return path if path and path.exists() else None


def refusal(finding: str, what: str, fix: str) -> ValueError:
    """Return what ends a run at its start, in the form of rlx's findings: id, problem and fix."""
    return ValueError(f"{finding} {what} (fix: {fix})")


@dataclass(frozen=True)
class InjectionSettings:
    """The content of aqn.json. Sigmas are standard deviations in units of the weights; steps count from 1.

    `schedule` is the way from sigma_start to sigma_end; `epoch_steps` the steps of an epoch where the stages run
    through in each one, None where they run through once. `targets`, `exclude` and the keys of `multipliers` are
    substrings of module names; the factors of all that match are multiplied. "auto" means every RMSNorm of a dense
    model and the post-attention RMSNorms of a mixture of experts. A sigma_start of 0 is that of an arm without noise.
    `perturbations`: the draws of a step, each of which generates its part of every group of answers. `adaptive`: the
    `target` that sigma follows with schedule "adaptive", its `value`, the `gain` of a step, `sigma_min` and
    `sigma_max`. Raises ValueError for what cannot be noise.
    """

    sigma_start: float
    sigma_end: float
    stages: int
    total_steps: int
    layer_types: tuple[str, ...] = ("rmsnorm",)
    targets: str | tuple[str, ...] = "auto"
    exclude: tuple[str, ...] = ()
    seed: int = 0
    validation_noise: bool = False
    schedule: str = "geometric"
    epoch_steps: int | None = None
    multipliers: dict[str, float] = field(default_factory=dict)
    adaptive: dict[str, Any] | None = None
    perturbations: int = 1

    def __post_init__(self) -> None:
        if self.stages < 3:
            raise ValueError(f"AQN needs at least 3 stages, got {self.stages}")
        if unknown := set(self.layer_types) - PRINTED_LAYER_TYPE.keys():
            raise ValueError(f"AQN knows the layer types {sorted(PRINTED_LAYER_TYPE)}, not {sorted(unknown)}")
        if self.perturbations < 1:
            raise ValueError(f"AQN draws its noise at least once a step, not {self.perturbations} times")
        if self.schedule not in (*SCHEDULES, ADAPTIVE):
            raise ValueError(f"AQN knows the schedules {', '.join(SCHEDULES)} and {ADAPTIVE}, not {self.schedule}")
        if (self.schedule == ADAPTIVE) != (self.adaptive is not None):
            raise ValueError("AQN with an adaptive schedule needs what it follows, and no other schedule takes that")

    @property
    def only_watches(self) -> bool:
        """Whether no step has noise: weights are looked at and never touched, and nothing of it ends a run."""
        return self.sigma_start == 0

    @classmethod
    def read(cls, path: Path) -> InjectionSettings:
        document = json.loads(path.read_text(encoding="utf-8"))
        lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
        return cls(**{**document, **lists})

    def sigma(self, step: int, measured: Mapping[int, float] = _NOTHING) -> float:
        """Sigma for the rollout of `step`; the first stage is free of noise (QeRL's schedule where geometric).

        `measured`: step -> what the adaptive schedule follows, of the steps before; no other schedule looks at it.
        Source: NVlabs/QeRL trl_trainer/noise_scheduler.py; per epoch, zhshgmail/verl cfb21db5,
        `get_epoch_aware_sigma_schedule`: each epoch takes its share of the way. Steps outside 1 … total_steps carry
        none: the weights synced after the last step are not used.
        """
        if self.only_watches or not 1 <= step <= self.total_steps:
            return 0.0
        length = self.epoch_steps or self.total_steps
        epoch, index = divmod(step - 1, length)
        stage = index * self.stages // length
        if stage == 0:
            return 0.0
        if self.adaptive is not None:
            return self._followed(self.adaptive, step, measured)
        epochs = -(-self.total_steps // length)
        return self._on_the_way((epoch + (stage - 1) / (self.stages - 2)) / epochs)

    def _followed(self, rule: Mapping[str, Any], step: int, measured: Mapping[int, float]) -> float:
        """Start at sigma_start; after each noisy step a larger sigma up to the target, a smaller one beyond it.

        Source: Plappert et al., arXiv 1706.01905, section 3. What was not measured leaves sigma as it is.
        """
        sigma, first = self.sigma_start, -(-self.total_steps // self.stages) + 1
        for value in (measured[past] for past in range(first, step) if past in measured):
            sigma = sigma * (1 + rule["gain"]) if value <= rule["value"] else sigma / (1 + rule["gain"])
            sigma = min(max(sigma, rule["sigma_min"]), rule["sigma_max"])
        return sigma

    def _on_the_way(self, share: float) -> float:
        """Sigma at `share` of the way, 0 to 1."""
        if self.schedule == "linear":
            return self.sigma_start + (self.sigma_end - self.sigma_start) * share
        if self.schedule == "constant":
            return self.sigma_start
        return self.sigma_start * (self.sigma_end / self.sigma_start) ** share

    def multiplier(self, name: str) -> float:
        """Return the factor on sigma for the layer of that name."""
        factor = 1.0
        for pattern, own in self.multipliers.items():
            factor *= own if pattern in name else 1.0
        return factor
