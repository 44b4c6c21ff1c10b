"""Refuse noise around a launch script of TRL, with the reason."""

from __future__ import annotations

import re

NAMED = re.compile(r"\btrl\b|\bGRPOTrainer\b")
NO_NOISE = (
    "TRL loads no module that a variable names, so the noise needs rlx's own training program; a recipe "
    "(backend: {kind: trl}) starts that"
)
