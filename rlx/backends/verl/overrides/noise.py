"""AQN as a fork of verl implements it, in keys of its own, and as the payload brings it into a stock verl.

Source of the fork's keys: zhshgmail/verl, branch feature/npu-aqn-test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.overrides.base import Rendering, with_module

HOOK = "rlx_verl_hook"  # the payload's modules begin with it


def environment(others: Mapping[str, str]) -> dict[str, str]:
    """Name what every process of the run must see beside `others`: without the hook the arm would train clean."""
    return with_module(others, HOOK)


def overrides(rendering: Rendering) -> Iterator[Override]:
    aqn = rendering.recipe.aqn
    if aqn is None or aqn.provider != "builtin":
        return
    settings = {
        "enabled": (True, "provider"),
        "sigma_start": (aqn.sigma_start, "sigma_start"),
        "sigma_end": (aqn.sigma_end, "sigma_end"),
        "num_stages": (aqn.stages, "stages"),
        # No pattern at all lets the fork choose: every RMSNorm, or the post-attention ones of a mixture of experts.
        "target_modules": ([] if aqn.targets == "auto" else aqn.targets, "targets"),
        "exclude_patterns": (aqn.exclude, "exclude"),
        "layer_types": (aqn.layer_types, "layer_types"),
    }
    for name, (value, field) in settings.items():
        key = f"trainer.noise_injection.{name}"
        # The fork's early versions read these keys without listing them in their configuration.
        yield Override(key, value, f"aqn.{field}", "" if key in rendering.table else "++")
