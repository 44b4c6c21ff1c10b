"""Names of verl's keys that several parts need, and the correction of off-policy samples that verl really applies.

Source: verl 0.6.1 to 0.9.1, trainer/config/algorithm/rollout_correction.yaml and trainer/ppo/rollout_corr_helper.py.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.model import Correction

LOG_PROBS_KEY = "actor_rollout_ref.rollout.calculate_log_probs"
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


def correction_of(setting: Setting) -> Correction | None:
    """Return the correction by the value of each setting; None where verl trains on all samples alike."""
    found = Correction(
        weights=_words(setting(WEIGHTS), setting(WEIGHTS_THRESHOLD)),
        rejection=", ".join(filter(None, (_rejection(setting), _veto(setting)))),
        bypass=setting(BYPASS) is True,
    )
    return None if found == Correction() else found


def _rejection(setting: Setting) -> str:
    low, high = setting(REJECTION_LOW), setting(REJECTION_THRESHOLD)
    return _words(setting(REJECTION), high if low is None else f"{low}_{high}")


def _veto(setting: Setting) -> str:
    """Name the rejection of whole sequences by a single token, which verl 0.6 has besides."""
    threshold = setting(VETO)
    return "" if threshold is None else f"veto {threshold}"


def _words(kind: object, threshold: object) -> str:
    return f"{kind} {threshold}" if kind else ""
