"""The back-end verl: a recipe becomes Hydra overrides for `verl.trainer.main_ppo`."""

from rlx.backends.verl.checks import check
from rlx.backends.verl.effective import settings
from rlx.backends.verl.installation_question import look
from rlx.backends.verl.planner import plan

__all__ = ["check", "look", "plan", "settings"]
