"""Tell which checkpoints of Megatron are whole. launch.sh names their folder as actor_config.load.

Megatron names the step in latest_checkpointed_iteration.txt after the last rank has written, and loads the one that
stands there. Read in the sources of MindSpeed-RL, never run here.
"""

from __future__ import annotations

from rlx.backends.shared.whole_checkpoints import LATEST, checkpoints_of
from rlx.model.attempt_lineage import CheckpointFiles, SavedCheckpoint

MARKER = LATEST
KEYS = (
    "actor_config.load",
    "actor_config.finetune",
    "actor_config.no_load_optim",
    "actor_config.no_load_rng",
    "rl_config.integrated_mode_config.ref_model_load_path",
    "rl_config.integrated_mode_config",
)


def checkpoints(files: CheckpointFiles) -> list[SavedCheckpoint]:
    return checkpoints_of(files, r"iter_(\d{7,12})", ("",))
