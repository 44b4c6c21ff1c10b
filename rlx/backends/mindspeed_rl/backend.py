"""The back-end MindSpeed-RL: a recipe becomes the YAML of one of its trainers, and a Ray for that run alone."""

from rlx.backends.mindspeed_rl.checks import check
from rlx.backends.mindspeed_rl.effective import settings
from rlx.backends.mindspeed_rl.installation_question import look
from rlx.backends.mindspeed_rl.planner import plan

__all__ = ["check", "look", "plan", "settings"]
