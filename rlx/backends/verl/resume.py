"""Tell which checkpoints of verl are whole. launch.sh hands the chosen one to verl.

verl writes the parts of a checkpoint, then the state of its data loader (data.pt), and names the step in
latest_checkpointed_iteration.txt last (trainer/ppo/ray_trainer.py, _save_checkpoint, 0.6.1 to 0.9.1). Without data.pt
it would go on with the data from the beginning.
"""

from __future__ import annotations

from rlx.backends.shared.whole_checkpoints import LATEST, checkpoints_of
from rlx.model.attempt_lineage import CheckpointFiles, SavedCheckpoint

MARKER = LATEST
KEYS = ("trainer.resume_mode", "trainer.resume_from_path")


def checkpoints(files: CheckpointFiles) -> list[SavedCheckpoint]:
    return checkpoints_of(files, r"global_step_(\d{1,12})", ("actor/", "data.pt"))
