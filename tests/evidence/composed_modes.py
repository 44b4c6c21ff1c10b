"""Configurations of published kinds of recipes, as Hydra composes them: tests/cases/modes.

`case.yaml`: the trainer, its overrides, the modes of a run of it, and the contradictions that cannot be seen in these.
`configuration.yaml`: what Hydra composes, cut to what is read of it and what differs from verl's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import CASES

FOLDER = CASES / "modes"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
_OPTIM = "actor_rollout_ref.actor.optim"
READ = (
    "algorithm.adv_estimator",
    "algorithm.kl_ctrl.kl_coef",
    "algorithm.kl_ctrl.type",
    "algorithm.norm_adv_by_std_in_grpo",
    "algorithm.use_kl_in_reward",
    "actor_rollout_ref.actor.kl_loss_coef",
    "actor_rollout_ref.actor.strategy",
    "actor_rollout_ref.actor.use_kl_loss",
    *(f"{_OPTIM}.{name}" for name in ("lr", "lr_decay_style", "lr_scheduler_type", "lr_warmup_steps", "warmup_style")),
    "actor_rollout_ref.model.path",
    "actor_rollout_ref.rollout.agent.default_agent_loop",
    "actor_rollout_ref.rollout.n",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.train_batch_size",
    "trainer.resume_mode",
    "trainer.total_epochs",
    "trainer.v1.trainer_mode",
)
"""The keys that stay in `configuration.yaml` where they are verl's defaults."""


@dataclass(frozen=True, slots=True)
class ModeCase:
    """One of them; the fields are those of its files."""

    trainer: str
    overrides: tuple[str, ...]
    modes: frozenset[str]
    not_observable: frozenset[str]
    configuration: Mapping[str, Any]


def read_case(name: str) -> ModeCase:
    """Read a case by the name of its folder."""
    found = yaml.safe_load((FOLDER / name / "case.yaml").read_text(encoding="utf-8"))
    written = FOLDER / name / "configuration.yaml"
    configuration = yaml.safe_load(written.read_text(encoding="utf-8")) if written.exists() else {}
    return ModeCase(
        found["trainer"],
        tuple(found["overrides"]),
        frozenset(found["modes"]),
        frozenset(found["not_observable"]),
        configuration,
    )


def write_configuration(name: str, configuration: Mapping[str, Any]) -> None:
    """Write what Hydra composes."""
    text = yaml.safe_dump(dict(configuration), allow_unicode=True)
    Path(FOLDER / name / "configuration.yaml").write_text(text, encoding="utf-8")
