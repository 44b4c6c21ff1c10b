"""The files that MindSpeed-RL's preprocessing makes of a data set.

Source: mindspeed_rl/datasets/data_handler.py and indexed_dataset.py.
"""

from __future__ import annotations

from rlx.preflight.data_files import TableForm

_FIELDS = ("input_ids", "attention_mask", "labels")
_SUFFIXES = ("bin", "idx")
# Its own preprocessing has made other files of the tables; what that reads is no part of the run.
TABLES = TableForm("MindSpeed-RL")


def packed_files(prefix: str) -> tuple[str, ...]:
    """`data_path` is a prefix: these six files are read."""
    return tuple(f"{prefix}_packed_{field}_document.{suffix}" for field in _FIELDS for suffix in _SUFFIXES)
