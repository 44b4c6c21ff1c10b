"""The files that MindSpeed-RL's preprocessing makes of a data set.

Source: mindspeed_rl/datasets/data_handler.py and indexed_dataset.py.
"""

from __future__ import annotations

from rlx.planning.data_files import Gsm8kForm, Preprocessing, TableForm
from rlx.resources import payload_folder

_FIELDS = ("input_ids", "attention_mask", "labels")
_SUFFIXES = ("bin", "idx")
# Its own preprocessing has made other files of the tables; what that reads is no part of the run.
TABLES = TableForm("MindSpeed-RL")
GSM8K = Gsm8kForm(
    help={
        "tokenizer": "the model whose tokenizer is used.",
        "preprocess": "then run its own preprocessing there.",
    },
    style="mindspeed-rl",
    tokenizer="its preprocessing needs a tokenizer",
    preprocessing=Preprocessing(
        "MindSpeed-RL",
        payload_folder("mindspeed_rl") / "gsm8k_preprocess.py",
        "python cli/preprocess_data.py gsm8k",
        "configs/datasets/ of MindSpeed-RL",
    ),
)


def packed_files(prefix: str) -> tuple[str, ...]:
    """`data_path` is a prefix: these six files are read."""
    return tuple(f"{prefix}_packed_{field}_document.{suffix}" for field in _FIELDS for suffix in _SUFFIXES)
