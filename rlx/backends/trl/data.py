"""The tables that the payload reads for TRL: those that verl's recipes have."""

from __future__ import annotations

from rlx.planning.data_files import TableForm

TABLES = TableForm(
    name="TRL",
    prompts="rlx's program for TRL reads [{role: user, content: text}]",
    truths="rlx's program for TRL reads reward_model: {ground_truth: text}",
)
