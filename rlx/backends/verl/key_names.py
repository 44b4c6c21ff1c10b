"""Names of verl's keys that several parts need, and the correction of off-policy samples that verl really applies.

Source: verl 0.6.1 to 0.9.1, trainer/config/algorithm/rollout_correction.yaml and trainer/ppo/rollout_corr_helper.py.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.model import ExpectedCorrection

LOG_PROBS_KEY = "actor_rollout_ref.rollout.calculate_log_probs"
LOGGER, READ_LOGGERS = "trainer.logger", ("console", "file")
"""The key of the loggers, and those by which rlx judges."""
SECTION = "algorithm.rollout_correction"
WEIGHTS, WEIGHTS_THRESHOLD, REJECTION, REJECTION_THRESHOLD, REJECTION_LOW, VETO, BYPASS = (
    f"{SECTION}.{name}"
    for name in (
        "rollout_is",
        "rollout_is_threshold",
        "rollout_rs",
        "rollout_rs_threshold",
        "rollout_rs_threshold_lower",
        "rollout_token_veto_threshold",
        "bypass_mode",
    )
)
Setting = Callable[[str], object]
# Each version has some of these. Where rollout.seed is missing, the inference engine's seed is fixed.
SEED_KEYS = (
    "data.seed",
    "actor_rollout_ref.actor.data_loader_seed",
    "actor_rollout_ref.actor.fsdp_config.seed",
    "actor_rollout_ref.actor.megatron.seed",
    "actor_rollout_ref.ref.fsdp_config.seed",
    "actor_rollout_ref.ref.megatron.seed",
    "actor_rollout_ref.rollout.seed",
)
CRITIC_SEED_KEYS = (
    "critic.data_loader_seed",
    "critic.fsdp.seed",
    "critic.model.fsdp_config.seed",
    "critic.megatron.seed",
)


def correction_of(setting: Setting) -> ExpectedCorrection | None:
    """Return the correction by the value of each setting; None where verl trains on all samples alike."""
    low, high, veto = (setting(key) for key in (REJECTION_LOW, REJECTION_THRESHOLD, VETO))
    weights, rejection = setting(WEIGHTS), setting(REJECTION)
    rejections = [f"{rejection} {high if low is None else f'{low}_{high}'}"] if rejection else []
    # verl 0.6 besides rejects whole sequences for a single token.
    rejections += [] if veto is None else [f"veto {veto}"]
    correction = ExpectedCorrection(
        weights=f"{weights} {setting(WEIGHTS_THRESHOLD)}" if weights else "",
        rejection=", ".join(rejections),
        bypass=setting(BYPASS) is True,
    )
    return None if correction == ExpectedCorrection() else correction
