"""The back-end TRL: a recipe becomes the arguments of its GRPOTrainer, which one program of the payload starts."""

from rlx.backends.trl.checks import check
from rlx.backends.trl.effective import settings
from rlx.backends.trl.installation_question import look
from rlx.backends.trl.planner import plan

__all__ = ["check", "look", "plan", "settings"]
