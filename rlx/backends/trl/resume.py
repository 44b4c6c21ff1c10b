"""Tell which checkpoints of a run of TRL are whole. The payload hands the chosen one to TRL.

transformers' Trainer writes trainer_state.json last but for the random states; the payload names the step after that
(rlx_trl_records.py, on_save).
"""

from __future__ import annotations

from rlx.backends.shared.whole_checkpoints import LATEST, checkpoints_of
from rlx.model.attempt_lineage import CheckpointFiles, SavedCheckpoint

MARKER = LATEST
# The payload switches it off in an attempt that goes on from a checkpoint.
KEYS = ("eval_on_start",)


def checkpoints(files: CheckpointFiles) -> list[SavedCheckpoint]:
    return checkpoints_of(files, r"checkpoint-(\d{1,12})", ("optimizer.pt", "trainer_state.json"))
