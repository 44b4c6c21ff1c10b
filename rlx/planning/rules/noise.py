"""Report adaptive quantisation noise that would be missing, or not as the recipe says."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.model import stage_sigmas
from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule, warning

# Of 200,000 bfloat16 weights around 1, as norm weights are, σ 1e-3 changed 2.5 % and 5e-4 none.
RESOLVED = 1e-3
PUBLISHED, FACTOR = 0.01, 5
_BLOCK = ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm")
_LINEAR = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "gate_up_proj", "down_proj")
_EXPERTS = ("experts", "shared_expert", "gate")
NAMES = {
    "rmsnorm": (*(f"model.layers.0.{name}" for name in _BLOCK), "model.norm"),
    "linear": (
        *(f"model.layers.0.self_attn.{name}" for name in _LINEAR),
        *(f"model.layers.0.mlp.{name}" for name in _MLP),
        "lm_head",
    ),
}


@rule("RLX620")
def resolution(facts: RecipeFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if aqn is None or facts.recipe.model.dtype != "bfloat16" or "rmsnorm" not in aqn.layer_types:
        return
    sigmas = [sigma for sigma in stage_sigmas(aqn.sigma_start, aqn.sigma_end, aqn.stages, aqn.schedule) if sigma]
    lost = [sigma for sigma in sigmas if sigma < RESOLVED]
    if lost:
        message = f"aqn: {len(lost)} of {len(sigmas)} noisy stages have a sigma below {RESOLVED:g}"
        say = warning if 3 * len(lost) >= len(sigmas) else note
        rounded = "which bfloat16 rounds away on norm weights"
        yield say(
            f"{message} ({lost[0]:.2g} and less), {rounded}", f"aqn.sigma_end {RESOLVED:g} or more", "aqn.sigma_end"
        )


@rule("RLX621")
def strength(facts: RecipeFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if aqn and aqn.sigma_start >= FACTOR * PUBLISHED:
        message = f"aqn.sigma_start {aqn.sigma_start:g} is {aqn.sigma_start / PUBLISHED:g} times that of QeRL's scripts"
        say = warning if aqn.sigma_start > FACTOR * PUBLISHED else note
        yield say(message, f"aqn.sigma_start {PUBLISHED:g} is the sigma of those scripts", "aqn.sigma_start")


@rule("RLX626")
def targets(facts: RecipeFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if aqn is None:
        return
    names = [name for kind in aqn.layer_types for name in _module_names(facts, kind)]
    patterns = [""] if aqn.targets == "auto" else list(aqn.targets)
    matched = [name for name in names if any(pattern in name for pattern in patterns)]
    left = [name for name in matched if not any(pattern in name for pattern in aqn.exclude)]
    kinds = " and ".join(aqn.layer_types)
    if not matched:
        message = f"aqn.targets {', '.join(patterns)}: no {kinds} layer has such a name"
        yield warning(message, f"patterns of {', '.join(names)}", "aqn.targets")
    elif not left:
        message = f"aqn.exclude {', '.join(aqn.exclude)}: leaves no {kinds} layer that aqn.targets names"
        yield error(message, f"exclude less of {', '.join(matched)}", "aqn.exclude")


@rule("RLX627")
def stages_and_steps(facts: RecipeFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    steps, of = (facts.steps_of_epoch, " of an epoch") if aqn and aqn.per_epoch else (facts.steps, "")
    if aqn and steps and aqn.stages > steps:
        message = f"aqn.stages {aqn.stages} over {steps} steps{of}: {aqn.stages - steps} stages never take place"
        yield warning(message, f"aqn.stages {steps} or fewer", "aqn.stages")


@rule("RLX642")
def split_weights(facts: RecipeFacts) -> Iterator[RuleFinding]:
    aqn, tp = facts.recipe.aqn, facts.recipe.rollout.tp
    if aqn and aqn.provider == "payload" and "linear" in aqn.layer_types and tp > 1:
        message = f"aqn.layer_types linear: rollout.tp {tp} splits these weights, and only whole ones take noise"
        yield error(message, "rollout.tp: 1, or aqn.layer_types: [rmsnorm]", "aqn.layer_types")


@rule("RLX695")
def adaptive(facts: RecipeFacts) -> Iterator[RuleFinding]:
    aqn, recipe = facts.recipe.aqn, facts.recipe
    if aqn is None or aqn.adaptive is None:
        return
    if recipe.rollout.engine != "cpu":
        message = f"aqn.schedule adaptive: nothing hands the measurements to rollout.engine {recipe.rollout.engine}"
        yield error(message, "rollout.engine: cpu, or another aqn.schedule", "aqn.schedule")
    elif recipe.algorithm.correction is not None and recipe.algorithm.correction.bypass:
        message = "aqn.schedule adaptive: with a bypass correction, neither gap nor entropy is measured"
        yield error(message, "no bypass, or another aqn.schedule", "aqn.schedule")


@rule("RLX195")
def perturbations(facts: RecipeFacts) -> Iterator[RuleFinding]:
    aqn, rollout, layout = facts.recipe.aqn, facts.recipe.rollout, facts.recipe.layout
    if aqn is None or aqn.perturbations == 1:
        return
    place, many = "aqn.perturbations", aqn.perturbations
    if rollout.engine != "cpu":
        message = f"{place} {many}: rollout.engine {rollout.engine} has one set of weights for all answers"
        yield error(message, "rollout.engine: cpu, or 1", place)
    elif layout.nodes * layout.devices_per_node > 1:
        message = f"{place} {many}: with several devices the answers of a group come from several replicas"
        yield error(message, "one device, or 1", place)
    elif rollout.n % many:
        message = f"{place} {many}: the {rollout.n} answers of a group (rollout.n) cannot be distributed equally"
        yield error(message, f"a divisor of {rollout.n}", place)


def _module_names(facts: RecipeFacts, kind: str) -> tuple[str, ...]:
    """Return the names of one block and of the layers after it; experts unless the model is known to have none."""
    has_none = facts.architecture is not None and facts.architecture.experts is None
    experts = () if kind == "rmsnorm" or has_none else tuple(f"model.layers.0.mlp.{name}" for name in _EXPERTS)
    return NAMES[kind] + experts
