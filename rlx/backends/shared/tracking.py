"""Set the variables of trackers: into the run directory, offline unless the recipe says otherwise, with group and tags.

Source: wandb 0.31.0, sdk/wandb_settings.py; swanlab 0.10.3, sdk/internal/settings; mlflow 3.17.2; trackio 0.43.0,
utils.py; transformers 5.10, integrations/integration_utils.py; verl 0.6.1 to 0.9.1, utils/tracking.py.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.shared.shell import Quoted

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

_FOLDER = Quoted('"$RLX_ATTEMPT_DIR"/track')
_LONGEST_WANDB_TAG = 64


@dataclass(frozen=True, slots=True)
class _Tracked:
    project: str
    offline: bool
    arm: str
    seed: int
    experiment: str

    @property
    def tags(self) -> dict[str, str]:
        return {"arm": self.arm, "seed": str(self.seed), "experiment": self.experiment}

    @property
    def words(self) -> list[str]:
        return [f"{name}:{value}" for name, value in self.tags.items()]


def track_variables(resolved: ResolvedRecipe) -> tuple[tuple[str, Quoted | None], ...]:
    """Name and value of each, quoted for a shell; None for one that must not be set. Not those of the recipe itself."""
    recipe = resolved.recipe
    if (track := recipe.track) is None:
        return ()
    tracked = _Tracked(track.project or recipe.name, track.mode == "offline", resolved.arm, recipe.seed, recipe.name)
    found = {name: value for tracker in track.to for name, value in _VARIABLES[tracker](tracked).items()}
    own = {*recipe.env, *recipe.secrets}
    return tuple((name, _word(value)) for name, value in found.items() if name not in own)


def _word(value: str | None) -> Quoted | None:
    return value if value is None or isinstance(value, Quoted) else Quoted(shlex.quote(value))


def _tensorboard(tracked: _Tracked) -> Mapping[str, str | None]:
    return {"TENSORBOARD_DIR": _FOLDER, "TENSORBOARD_LOGGING_DIR": _FOLDER}


def _wandb(tracked: _Tracked) -> Mapping[str, str | None]:
    return {
        "WANDB_MODE": "offline" if tracked.offline else "online",
        **{f"WANDB_{part}DIR": _FOLDER for part in ("", "CACHE_", "CONFIG_", "DATA_")},
        "WANDB_PROJECT": tracked.project,
        "WANDB_RUN_GROUP": tracked.experiment,
        "WANDB_JOB_TYPE": tracked.arm,
        "WANDB_TAGS": ",".join(word[:_LONGEST_WANDB_TAG] for word in tracked.words),
        "WANDB_NOTES": Quoted('"$RLX_RUN"'),
        # The log is rlx's; sources and their state stay where they are.
        "WANDB_CONSOLE": "off",
        "WANDB_DISABLE_GIT": "true",
        "WANDB_DISABLE_CODE": "true",
    }


def _swanlab(tracked: _Tracked) -> Mapping[str, str | None]:
    return {
        "SWANLAB_MODE": "offline" if tracked.offline else "cloud",
        "SWANLAB_LOG_DIR": _FOLDER,
        # Not SWANLAB_PROJECT: swanlab 0.10 reads that as a section and fails.
        "SWANLAB_PROJ_NAME": tracked.project,
        "SWANLAB_GROUP": tracked.experiment,
        "SWANLAB_JOB_TYPE": tracked.arm,
        "SWANLAB_TAGS": Quoted(f'{shlex.quote(",".join(tracked.words))},run:"$RLX_RUN"'),
        "SWANLAB_INTERACTIVE": "false",
    }


def _mlflow(tracked: _Tracked) -> Mapping[str, str | None]:
    place = {"MLFLOW_TRACKING_URI": Quoted('sqlite:///"$RLX_ATTEMPT_DIR"/track/mlflow.db')} if tracked.offline else {}
    return {
        **place,
        "MLFLOW_EXPERIMENT_NAME": tracked.project,
        "MLFLOW_TAGS": json.dumps(tracked.tags),
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }


def _trackio(tracked: _Tracked) -> Mapping[str, str | None]:
    # Empty ones would count as set.
    senders = dict.fromkeys(("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")) if tracked.offline else {}
    return {"TRACKIO_DIR": _FOLDER, **senders}


_VARIABLES: Mapping[str, Callable[[_Tracked], Mapping[str, str | None]]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "swanlab": _swanlab,
    "mlflow": _mlflow,
    "trackio": _trackio,
}
