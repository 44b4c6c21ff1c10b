"""Hold the trainer against its program, and what the DAPO recipe's own trainer could not do."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import BATCH, GEN_BATCH, VerlFacts
from rlx.backends.verl.trainers import DAPO, DECLARED, MAIN_PPO, SYNC, program_of, trainer_of, trainer_of_program
from rlx.preflight.rules.rule_table import Flaw, error, rule, warning

_MODE = "trainer.v1.trainer_mode"
_MOST_BATCHES = "algorithm.filter_groups.max_num_gen_batches"
_DECLARE = "backend.trainer: declared with its totals: {steps: …, validations: […]}"


@rule(
    "RLX229",
    title="verl: a program whose steps rlx cannot count",
    why="steps, validations, samples and memory would be those of another trainer, and the verdict with them",
    fix="`backend.trainer: sync` or `dapo` with its program, or `declared` with `backend.totals`",
    source="verl's trainers with their own loops: experimental/fully_async_policy, experimental/one_step_off_policy, "
    "main_ppo_sync of 0.8, trainer.v1.trainer_mode of 0.9; recipe/*/main_*.py",
)
def unknown_program(facts: VerlFacts) -> Iterator[Flaw]:
    backend = facts.recipe.backend
    if backend.trainer == DECLARED:
        return
    program = program_of(backend, facts.settings.version)
    starts, named = trainer_of_program(program), trainer_of(backend)
    if starts is None:
        yield error(f"backend.entrypoint {program}: rlx does not know how it counts steps", _DECLARE, _ENTRY)
    elif starts == DAPO and named == SYNC:
        yield error(f"backend.entrypoint {program} is DAPO's, and backend.trainer says sync", "trainer: dapo", _TRAINER)
    elif starts == SYNC and named == DAPO and not facts.uses_v1:
        message = f"backend.trainer dapo: {program} of verl {facts.settings.version} filters no groups"
        yield error(message, "no backend.entrypoint, or the program of the DAPO recipe", _ENTRY)
    mode = facts.setting(_MODE)
    if facts.uses_v1 and mode not in (None, SYNC):
        source = facts.source(_MODE)
        message = f"{source} {mode}: generates beside the training, and rlx does not know how it counts steps"
        yield error(message, f"{_MODE}: {SYNC}, or {_DECLARE}", source)


_ENTRY, _TRAINER = "backend.entrypoint", "backend.trainer"


@rule(
    "RLX231",
    title="DAPO before verl 0.7.1: nothing says for which step it generates",
    why="its trainer syncs the weights before each generation and names no step, so that no noise would be added",
    fix="verl 0.7.1 or later, or a fork's own noise (`aqn.provider: builtin`)",
    source="recipe/dapo/dapo_ray_trainer.py of verl 0.6.1: generate_sequences without meta_info global_steps",
)
def noise_without_a_step(facts: VerlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if facts.is_dapo_recipe and aqn is not None and aqn.provider == "payload" and facts.release < (0, 7):
        message = f"aqn with backend.trainer dapo: the DAPO recipe of verl {facts.settings.version} names no step"
        yield error(message, f"verl 0.7.1 or later, aqn.provider builtin, or {MAIN_PPO}", "aqn")


@rule(
    "RLX232",
    title="DAPO: so few batches never fill a step",
    why="the trainer ends with an error as soon as it has generated that many",
    fix="a larger `max_num_gen_batches` or `data.gen_batch_size`; 0 is without limit",
    source="recipe/dapo/dapo_ray_trainer.py: Generated too many",
)
def never_filled(facts: VerlFacts) -> Iterator[Flaw]:
    most, trained, generated = facts.count(_MOST_BATCHES), facts.count(BATCH), facts.generated
    if not (facts.is_dapo_recipe and facts.filters_groups and most and trained and generated):
        return
    if most * generated < trained:
        message = f"{facts.named(_MOST_BATCHES)} of {generated} prompts are fewer than the {trained} of a step"
        yield error(message, f"at least {-(-trained // generated)}", facts.source(_MOST_BATCHES))


@rule(
    "RLX233",
    title="noise in rlx's own rollout under another program than verl's main_ppo",
    why="only verl's own trainer of 0.9 tells that rollout of its validations: they would be noisy",
    fix="no `backend.entrypoint`; `trainer: dapo` filters groups without one as well",
    source="rlx/backends/verl/payload/rlx_verl_cpu_trainer.py fills hooks of PPOTrainerSync",
)
def untold_validations(facts: VerlFacts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.rollout.engine != "cpu" or recipe.aqn is None or recipe.aqn.provider != "payload" or facts.uses_v1:
        return
    program = program_of(recipe.backend, facts.settings.version)
    yield error(f"aqn with rollout.engine cpu and {program}: validations would be noisy", f"{MAIN_PPO} of 0.9", "aqn")


@rule(
    "RLX234",
    title="DAPO without its filter trains on what it generates",
    why="without algorithm.filter_groups a step takes all prompts of data.gen_batch_size, whatever the batch size says",
    fix="`algorithm.filter_groups.enable: true`, or equal sizes",
    source="recipe/dapo/dapo_ray_trainer.py: batch = new_batch",
)
def trains_on_what_it_generates(facts: VerlFacts) -> Iterator[Flaw]:
    trained, generated = facts.count(BATCH), facts.generated
    if facts.is_dapo_recipe and not facts.filters_groups and trained and generated != trained:
        message = f"{facts.named(GEN_BATCH)}: without a filter each step trains on so many prompts, not on {trained}"
        yield warning(message, f"{GEN_BATCH}: {trained}, or the filter", facts.source(GEN_BATCH))


@rule(
    "RLX235",
    title="limits of the DAPO recipe that verl's own filter does not read",
    why="verl 0.9 begins its data anew until the step is full, one prompt after another: a run without enough groups "
    "goes on for ever",
    fix="remove them, or start the DAPO recipe's program; `max_inflight_gen_batches` bounds what is generated at once",
    source="verl 0.9.1 trainer/ppo/v1/trainer_base.py: max_num_gen_batches is ignored, gen_batch_size overridden to 1",
)
def unread_limits(facts: VerlFacts) -> Iterator[Flaw]:
    if not (facts.uses_v1 and facts.filters_groups):
        return
    for key, idle in ((_MOST_BATCHES, 0), (GEN_BATCH, 1)):
        if facts.count(key) not in (None, idle):
            message = f"{facts.named(key)}: verl {facts.settings.version} does not read it"
            yield warning(message, "remove it, or the program of the DAPO recipe", facts.source(key))
