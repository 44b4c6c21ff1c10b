"""Refuse noise around a launch script of MindSpeed-RL, with the reason."""

from __future__ import annotations

import re

NAMED = re.compile(r"mindspeed[-_]rl|\btrain_grpo\.py\b|\bcli/train_\w+\.py\b", re.IGNORECASE)
NO_NOISE = (
    "MindSpeed-RL gives its workers the variables of a file in its own checkout, so nothing that is exported around "
    "the script reaches them; a recipe (backend: {kind: mindspeed-rl}) brings the noise"
)
