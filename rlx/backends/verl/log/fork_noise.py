"""The lines that verl's forks print about noise, one row per wording, and the faults that these lines reveal.

An `Applied noise to N` line does not name its step and sigma; a `Noise injection … Step: a/b` line of the same process
does, just before. What was announced and never came names the fault, and lines about clean weights say whether noise
was added to noise.

Source of the wordings: zhshgmail/verl, branches feature/npu-aqn-test (up to cfb21db5) and
feature/qerl-noise-injection-moe (2ed0e842), by the commit named in each row; read there, not run.
The faults: zhshgmail/verl, branch feature/npu-aqn-test up to cfb21db5; read there, and its arithmetic computed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlx.evidence.checks.noise_by_step import Application, training_steps
from rlx.evidence.log_grammar import CLEAN, NOISY, Context, NoiseSays, Weights
from rlx.evidence.reading.console import applied, at_begin, read_applied, read_sigma
from rlx.evidence.run_evidence import Announcement, Evidence
from rlx.evidence.verdict import CheckFinding, at_steps, counted, invalid

# Of `Noise injection` and `Applied noise`, and of what else the fork says.
NEEDLES = (b"oise ", b"AQN")
_CONTEXT = re.compile(
    r"(?:\[AQN\] )?Noise injection(?: \(\w{1,20}\))? - Step: (\d{1,9})/\d{1,9}, Sigma ID: -?\d{1,9}, "
    r"Sigma: ([-+.\deE]{1,30}|nan)"
)
_APPLYING = re.compile(
    r"\[AQN\] Applying noise injection: step=(\d{1,9})/\d{1,9}, sigma_id=-?\d{1,9}, sigma=([.\d]{1,30})"
)
_EPOCH_AWARE = re.compile(r"\[AQN-EpochAware\] step=(\d{1,9}) \(.{1,60}\), sigma_id=-?\d{1,9}, sigma=([.\d]{1,30})")
_FULL_SYNC = re.compile(r"\[AQN-Fix\] Full weight sync path")
_RESTORED = re.compile(r"\[AQN-Fix\] Restored (\d{1,9}) layers to clean weights")
_NOT_RESTORED = re.compile(r"\[AQN\] Cannot restore - no clean weights cached")
_PER_LAYER = "SRDD-guided"
_LAYER_SIGMAS = "trainer.noise_injection.layer_sigma_config"


@dataclass(frozen=True, slots=True)
class Wording:
    """One wording: the commit that introduced it, if any, a sample, and what rlx reads from it (None: nothing)."""

    commit: str
    sample: str
    means: NoiseSays | None


WORDINGS = (
    Wording("132a8153", "Noise injection - Step: 3/29, Sigma ID: 0, Sigma: 0.05", Context(4, 0.05)),
    Wording("132a8153", "Applied noise to 24 RMSNorm layers (skipped 24 input_layernorm)", applied(24, "RMSNorm")),
    Wording("be84d716", "[AQN] Noise injection - Step: 12/58, Sigma ID: 1, Sigma: 0.007499", Context(13, 0.007499)),
    Wording("be84d716", "[AQN] Applied noise to 57 RMSNorm layers (skipped 0 excluded layers)", applied(57, "RMSNorm")),
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
    Wording("4a62fd74", "[AQN] Applied noise to 2 linear layers (skipped 0 excluded layers)", applied(2, "linear")),
    Wording("4a62fd74", "[AQN] Applied noise to 0 rmsnorm layers (skipped 0 excluded layers)", applied(0, "RMSNorm")),
    Wording(
        "4a62fd74",
        "[AQN] Applied noise to 253 rmsnorm+linear layers (skipped 1 excluded layers)",
        applied(253, "rmsnorm+linear"),
    ),
    Wording(
        "e6ff94f0",
        "[AQN] Noise injection (Dense) - Step: 7/58, Sigma ID: 0, Sigma: 0.010000, LayerTypes: ['linear'], "
        "Target: ALL, SRDD-guided=28 layers, Zone=EARLY(mid_mult=1.0)",
        Context(8, 0.01, per_layer=True),
    ),
    Wording(
        "64855009",
        "[AQN] Applied noise to 196 linear layers (skipped 0 excluded layers) (SRDD-guided)",
        applied(196, "linear", per_layer=True),
    ),
    Wording("cfb21db5", "[AQN] Noise injection enabled: 9 stages, total_steps=29, targets=AUTO", None),
    Wording("cfb21db5", "[AQN] Epoch-aware noise injection enabled: 2 epochs, 5 stages/epoch, targets=AUTO", None),
    Wording(
        "132a8153",
        "[AQN] Applying noise injection: step=12/29, sigma_id=3, sigma=0.008891",
        Announcement(13, 0.008891),
    ),
    Wording(
        "4399ddd0",
        "[AQN-EpochAware] step=12 (epoch 1, step 12), sigma_id=3, sigma=0.008891",
        Announcement(13, 0.008891, epoch_aware=True),
    ),
    Wording("cfb21db5", "[AQN] Skipping noise injection during validation (QeRL behavior)", None),
    Wording("cfb21db5", "[AQN-Fix] Full weight sync path (step 4) - caching clean weights", Weights(CLEAN)),
    Wording("cfb21db5", "[AQN] Cached 57 clean layer weights (171.0 KB) for restore-before-noise", None),
    Wording("cfb21db5", "[AQN-Fix] Restored 57 layers to clean weights (step 5, LoRA-only sync)", Weights(CLEAN, 57)),
    Wording("cfb21db5", "[AQN] Cannot restore - no clean weights cached", Weights(NOISY)),
    Wording("", "AQN: step=20 stage=4 sigma=5.000e-04 tensors=4", Announcement(None, 0.0005)),
    Wording("", "AQN with sigma=e-", None),
    Wording("cfb21db5", "[RayPPOTrainer] Noise injection initialized: 9 stages, 29 total steps", None),
    Wording("cfb21db5", "[RayPPOTrainer] Noise injection config passed to rollout: enabled=True, stages=9", None),
)


def read_noise_line(line: str) -> NoiseSays | None:
    """Read what a line of a fork says about noise; None: nothing, or nothing but what other back-ends print, too."""
    if layers := read_applied(line):
        return replace(layers, per_layer=_PER_LAYER in line)
    if match := at_begin(_CONTEXT, line):
        sigma = read_sigma(match[2])
        return None if sigma is None else Context(_step(match[1]), sigma, _PER_LAYER in line)
    if match := at_begin(_APPLYING, line) or at_begin(_EPOCH_AWARE, line):
        sigma = read_sigma(match[2])
        return None if sigma is None else Announcement(_step(match[1]), sigma, match.re is _EPOCH_AWARE)
    return _weights(line)


def _weights(line: str) -> Weights | None:
    if match := at_begin(_RESTORED, line):
        return Weights(CLEAN, int(match[1]))
    if at_begin(_FULL_SYNC, line):
        return Weights(CLEAN)
    return Weights(NOISY) if at_begin(_NOT_RESTORED, line) else None


def _step(printed: str) -> int:
    """Convert a printed step to the log's count.

    The fork's trainer sets its step counter after the update of step a; the weights it announces with `Step: a/b` are
    synced after that and generate the rollout which the log reports as step a + 1.
    """
    return int(printed) + 1


def noise_faults(evidence: Evidence, found: Application) -> Iterator[CheckFinding]:
    if not any(event.is_noisy for event in evidence.noise):
        yield from _epoch_aware_is_never_noisy(evidence)
        yield from _step_never_advanced(evidence, found)
    else:
        yield from _without_multipliers(evidence)


def _epoch_aware_is_never_noisy(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report the fork's epoch-aware noise: it hands the step's sigma on as a schedule whose stage 0 is sigma 0."""
    # What was synced after the last step generates nothing.
    steps = range(1, evidence.last_step + 1)
    promised = [said for said in evidence.announced if said.epoch_aware and said.sigma > 0 and said.step in steps]
    if promised:
        yield invalid(
            "RLX615",
            f"the fork's epoch-aware noise is always 0: its lines announce it for "
            f"{counted(len({said.step for said in promised}), 'step')}, sigma {promised[0].sigma:g} first at step "
            f"{promised[0].step}, and none was added (zhshgmail/verl, every version from 4399ddd0 to cfb21db5)",
            "use the global mode, or aqn.provider: payload",
            promised[0].step,
        )


def _step_never_advanced(evidence: Evidence, found: Application) -> Iterator[CheckFinding]:
    announced = [each for each in evidence.announced if not each.epoch_aware]
    if announced and len(training_steps(evidence)) > 1 and found.due and {each.step for each in announced} == {1}:
        yield invalid(
            "RLX615",
            f"the fork's noise stands still at its step 0, which is free of noise, in all of "
            f"{counted(len(training_steps(evidence)), 'step')}: the trainer never advances it (the DAPO trainer of "
            "zhshgmail/verl before 2da4dd15)",
            "use a version with 2da4dd15, or aqn.provider: payload",
            found.due[0],
        )


def _without_multipliers(evidence: Evidence) -> Iterator[CheckFinding]:
    """Find noise without multipliers: the fork prints `SRDD-guided` if it multiplies sigma layer by layer."""
    if not _asks_for_multipliers(evidence.settings):
        return
    plain = [event for event in evidence.noise if event.is_noisy and not event.per_layer]
    if plain:
        steps = [event.step for event in plain if event.step is not None and event.step <= evidence.last_step]
        where = f" at {at_steps(steps)}" if steps else ""
        yield invalid(
            "RLX616",
            f"sigma was to differ layer by layer (layer_sigma_config), and the noise{where} shows no multiplier; the "
            "trainer of zhshgmail/verl up to cfb21db5 never hands them to the rollout",
            "without them this is the arm with one sigma for all layers: compare it as that",
            min(steps, default=None),
        )


def _asks_for_multipliers(settings: Mapping[str, Any]) -> bool:
    own = {key: value for key, value in settings.items() if f"{key}.".startswith(f"{_LAYER_SIGMAS}.")}
    return any(value is not None for value in own.values()) and own.get(f"{_LAYER_SIGMAS}.enabled") is not False
