"""The lines that say noise was added to weights, in every wording seen in the wild, one row a wording.

Only an `Applied noise to N` line is evidence. It does not name its step and sigma; a `Noise injection … Step: a/b`
line of the same process does, just before. Lines that announce, configure or skip noise prove nothing: they are also
printed at sigma 0, with no layer matched, and in runs that never added any.

Source of the wordings: zhshgmail/verl, branches feature/npu-aqn-test (up to cfb21db5) and
feature/qerl-noise-injection-moe (2ed0e842), by the commit named in each row; read there, not run.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from rlx.evidence.values import NoiseEvent

# Of `Noise injection` and `Applied noise`.
NEEDLES = (b"oise ",)


class Context(NamedTuple):
    """Step and sigma that a process announced for its next `Applied noise` line."""

    step: int
    sigma: float


@dataclass(frozen=True, slots=True)
class Wording:
    """One wording: the commit that introduced it, a sample, and what rlx reads from it (None: nothing)."""

    commit: str
    sample: str
    means: Context | NoiseEvent | None


def _applied(layers: int, kind: str) -> NoiseEvent:
    return NoiseEvent(step=None, sigma=math.nan, layers=layers, kind=kind)


WORDINGS = (
    Wording("132a8153", "Noise injection - Step: 3/29, Sigma ID: 0, Sigma: 0.05", Context(4, 0.05)),
    Wording("132a8153", "Applied noise to 24 RMSNorm layers (skipped 24 input_layernorm)", _applied(24, "RMSNorm")),
    Wording("be84d716", "[AQN] Noise injection - Step: 12/58, Sigma ID: 1, Sigma: 0.007499", Context(13, 0.007499)),
    Wording(
        "be84d716", "[AQN] Applied noise to 57 RMSNorm layers (skipped 0 excluded layers)", _applied(57, "RMSNorm")
    ),
    Wording(
        "41a49cb7",
        "[AQN] Noise injection (Dense) - Step: 0/29, Sigma ID: 0, Sigma: 0.000000, Target: ALL RMSNorm",
        Context(1, 0.0),
    ),
    Wording(
        "41a49cb7",
        "[AQN] Noise injection (MoE) - Step: 28/29, Sigma ID: 8, Sigma: 0.000500, Target: ['post_attention_layernorm']",
        Context(29, 0.0005),
    ),
    Wording(
        "4a62fd74",
        "[AQN] Noise injection (Dense) - Step: 5/116, Sigma ID: 0, Sigma: 0.010000, "
        "LayerTypes: ['rmsnorm'], Target: ALL",
        Context(6, 0.01),
    ),
    Wording("4a62fd74", "[AQN] Applied noise to 2 linear layers (skipped 0 excluded layers)", _applied(2, "linear")),
    Wording("4a62fd74", "[AQN] Applied noise to 0 rmsnorm layers (skipped 0 excluded layers)", _applied(0, "RMSNorm")),
    Wording(
        "4a62fd74",
        "[AQN] Applied noise to 253 rmsnorm+linear layers (skipped 1 excluded layers)",
        _applied(253, "rmsnorm+linear"),
    ),
    Wording(
        "e6ff94f0",
        "[AQN] Noise injection (Dense) - Step: 7/58, Sigma ID: 0, Sigma: 0.010000, LayerTypes: ['linear'], "
        "Target: ALL, SRDD-guided=28 layers, Zone=EARLY(mid_mult=1.0)",
        Context(8, 0.01),
    ),
    Wording(
        "64855009",
        "[AQN] Applied noise to 196 linear layers (skipped 0 excluded layers) (SRDD-guided)",
        _applied(196, "linear"),
    ),
    Wording("cfb21db5", "[AQN] Noise injection enabled: 9 stages, total_steps=29, targets=AUTO", None),
    Wording("cfb21db5", "[AQN] Epoch-aware noise injection enabled: 2 epochs, 5 stages/epoch, targets=AUTO", None),
    Wording("cfb21db5", "[AQN] Applying noise injection: step=12/29, sigma_id=3, sigma=0.008891", None),
    Wording("cfb21db5", "[AQN-EpochAware] step=12 (epoch 1, step 12), sigma_id=3, sigma=0.008891", None),
    Wording("cfb21db5", "[AQN] Skipping noise injection during validation (QeRL behavior)", None),
    Wording("cfb21db5", "[AQN-Fix] Full weight sync path (step 4) - caching clean weights", None),
    Wording("cfb21db5", "[AQN] Cached 57 clean layer weights (171.0 KB) for restore-before-noise", None),
    Wording("cfb21db5", "[AQN-Fix] Restored 57 layers to clean weights (step 5, LoRA-only sync)", None),
    Wording("cfb21db5", "[AQN] Cannot restore - no clean weights cached", None),
    Wording("cfb21db5", "[RayPPOTrainer] Noise injection initialized: 9 stages, 29 total steps", None),
    Wording("cfb21db5", "[RayPPOTrainer] Noise injection config passed to rollout: enabled=True, stages=9", None),
)

_CONTEXT = re.compile(
    r"Noise injection(?: \(\w{1,20}\))? - Step: (\d{1,9})/\d{1,9}, Sigma ID: -?\d{1,9}, Sigma: ([-+.\deE]{1,30}|nan)"
)
_APPLIED = re.compile(r"Applied noise to (\d{1,9}) ([\w+/,-]{1,60}) layers")


def read_aqn_line(line: str) -> Context | NoiseEvent | None:
    """What a line says about noise: the announcement of a step and sigma, an application, or nothing."""
    if match := _APPLIED.search(line):
        kind = "RMSNorm" if match[2].lower() == "rmsnorm" else match[2]
        return _applied(int(match[1]), kind)
    if match := _CONTEXT.search(line):
        try:
            # The fork's trainer sets its step counter after the update of step a; the weights it announces with
            # `Step: a/b` are synced after that and generate the rollout which the log reports as step a + 1.
            return Context(int(match[1]) + 1, float(match[2]))
        except ValueError:
            return None
    return None
