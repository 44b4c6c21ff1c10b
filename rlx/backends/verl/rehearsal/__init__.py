"""Rehearse a recipe for verl: the same one in small, for stock verl on this CPU."""

from rlx.backends.verl.rehearsal.derive import engine_for, rehearsal_of
from rlx.backends.verl.rehearsal.inputs import VERSION
from rlx.installed import install_command

PACKAGES = ("torch", "transformers", "ray", "transfer_queue", "pyarrow", "peft", "fastapi", "uvicorn", "cachetools")
"""What it imports, beside itself."""
NEEDED = ("verl", VERSION)
"""The package that rehearses, and its version."""
FIX = f"pip install torch==2.13.0 (a CPU build), then {install_command('verl-cpu')}"

__all__ = ["FIX", "NEEDED", "PACKAGES", "engine_for", "rehearsal_of"]
