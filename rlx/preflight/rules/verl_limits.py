"""What verl, or rlx with verl, cannot do at all."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.overrides.cpu import NEEDED_KEY
from rlx.preflight.rules.facts import Facts
from rlx.preflight.rules.registry import Flaw, error, rule, warning


@rule(
    "RLX201",
    title="fsdp splits no tensors, pipelines or experts",
    why="the layout would be ignored",
    fix="leave tp, pp, ep at 1, or use megatron",
    source="verl's FSDP engines have no such settings",
)
def fsdp_splits(facts: Facts) -> Iterator[Flaw]:
    layout = facts.recipe.layout
    if not facts.is_megatron and (layout.tp, layout.pp, layout.ep) != (1, 1, 1):
        message = f"layout: {facts.recipe.backend.engine} splits no tensors, pipelines or experts"
        yield error(message, "leave tp, pp and ep at 1, or use backend.engine: megatron", "layout.tp")


@rule(
    "RLX202",
    title="verl places all roles on all devices",
    why="pools would be ignored",
    fix="remove `layout.pools`",
    source="verl main_ppo: one global resource pool",
)
def pools(facts: Facts) -> Iterator[Flaw]:
    if facts.recipe.layout.pools is not None:
        yield error("layout.pools: verl places all roles on all devices", "remove it", "layout.pools")


@rule(
    "RLX203",
    title="more than one node",
    why="a run's own Ray covers one",
    fix="use one node",
    source="templates/verl.sh.j2: RAY_ADDRESS=local",
)
def nodes(facts: Facts) -> Iterator[Flaw]:
    count = facts.recipe.layout.nodes
    if count > 1:
        yield error(f"layout.nodes {count}: a run's own Ray covers one node", "use one node", "layout.nodes")


@rule(
    "RLX204",
    title="rollout.ep is not a multiple of rollout.tp",
    why="verl splits experts over whole groups",
    fix="make it one",
    source="verl/workers/config/rollout.py: expert_parallel_size == tensor_model_parallel_size * data_parallel_size",
)
def expert_groups_of_rollout(facts: Facts) -> Iterator[Flaw]:
    rollout = facts.recipe.rollout
    if rollout.ep > 1 and (rollout.ep < rollout.tp or rollout.ep % rollout.tp):
        message = f"rollout.ep {rollout.ep}: verl splits experts over whole groups of rollout.tp {rollout.tp}"
        yield error(message, f"rollout.ep {rollout.tp} or {2 * rollout.tp}", "rollout.ep")


@rule(
    "RLX401",
    title="the CPU rollout needs a later verl",
    why="older ones cannot be steered from outside",
    fix="use verl 0.9",
    source="verl 0.9.1: trainer.v1.sampler.custom_sampler",
)
def cpu_rollout(facts: Facts) -> Iterator[Flaw]:
    if facts.recipe.rollout.engine == "cpu" and NEEDED_KEY not in facts.settings.defaults:
        message = f"rollout.engine cpu: verl {facts.settings.version} cannot be steered from outside"
        yield error(message, "use verl 0.9", "rollout.engine")


@rule(
    "RLX610",
    title="rlx brings no noise for this rollout engine",
    why="the arm would train without noise",
    fix="`aqn.provider: builtin` with a fork that has it",
    source="rlx/payload/rlx_aqn.py is called by rlx's own rollout only",
)
def noise_provider(facts: Facts) -> Iterator[Flaw]:
    aqn, engine = facts.recipe.aqn, facts.recipe.rollout.engine
    if aqn and aqn.provider == "payload" and engine != "cpu":
        message = f"aqn.provider payload: rlx brings no noise for rollout.engine {engine}"
        yield error(message, "use aqn.provider: builtin with a verl that has trainer.noise_injection", "aqn.provider")


@rule(
    "RLX611",
    title="the length of the run is not known",
    why="noise is spread over the whole run",
    fix="give `data.train_rows`",
    source="rlx/backends/verl/noise.py; the fork: total_steps = epochs * len(dataloader)",
)
def noise_length(facts: Facts) -> Iterator[Flaw]:
    recipe, aqn = facts.recipe, facts.recipe.aqn
    if aqn and recipe.data.train_rows is None and (aqn.provider == "builtin" or recipe.train.steps is None):
        message = "aqn: the noise is spread over the whole run, whose length is not known"
        yield error(message, "give data.train_rows", "data.train_rows")


@rule(
    "RLX612",
    title="the fork leaves its noise in during validation",
    why="the numbers would be of noisy weights",
    fix="declare it in all arms: `eval.noise: true`",
    source="zhshgmail/verl cfb21db5: the trainer never passes is_validation",
)
def noise_in_validation(facts: Facts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if aqn and aqn.provider == "builtin" and not facts.recipe.eval.noise:
        message = "aqn.provider builtin: the fork injects its noise into validations too"
        yield warning(message, "declare it: eval.noise: true", "eval.noise")
