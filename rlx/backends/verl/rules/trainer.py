"""Hold the trainer against its program, and what the DAPO recipe's own trainer could not do."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import BATCH, GEN_BATCH, VerlFacts
from rlx.backends.verl.trainers import DAPO, DECLARED, MAIN_PPO, SYNC, program_of, trainer_of, trainer_of_program
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

_MODE = "trainer.v1.trainer_mode"
_MOST_BATCHES = "algorithm.filter_groups.max_num_gen_batches"
_DECLARE = "backend.trainer: declared with its totals: {steps: …, validations: […]}"


@rule("RLX229")
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


@rule("RLX231")
def noise_without_a_step(facts: VerlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if facts.is_dapo_recipe and aqn is not None and aqn.provider == "payload" and facts.release < (0, 7):
        message = f"aqn with backend.trainer dapo: the DAPO recipe of verl {facts.settings.version} names no step"
        yield error(message, f"verl 0.7.1 or later, aqn.provider builtin, or {MAIN_PPO}", "aqn")


@rule("RLX232")
def never_filled(facts: VerlFacts) -> Iterator[Flaw]:
    most, trained, generated = facts.count(_MOST_BATCHES), facts.count(BATCH), facts.generated
    if not (facts.is_dapo_recipe and facts.filters_groups and most and trained and generated):
        return
    if most * generated < trained:
        message = f"{facts.named(_MOST_BATCHES)} of {generated} prompts are fewer than the {trained} of a step"
        yield error(message, f"at least {-(-trained // generated)}", facts.source(_MOST_BATCHES))


@rule("RLX233")
def untold_validations(facts: VerlFacts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.rollout.engine != "cpu" or recipe.aqn is None or recipe.aqn.provider != "payload" or facts.uses_v1:
        return
    program = program_of(recipe.backend, facts.settings.version)
    yield error(f"aqn with rollout.engine cpu and {program}: validations would be noisy", f"{MAIN_PPO} of 0.9", "aqn")


@rule("RLX234")
def trains_on_what_it_generates(facts: VerlFacts) -> Iterator[Flaw]:
    trained, generated = facts.count(BATCH), facts.generated
    if facts.is_dapo_recipe and not facts.filters_groups and trained and generated != trained:
        message = f"{facts.named(GEN_BATCH)}: without a filter each step trains on so many prompts, not on {trained}"
        yield warning(message, f"{GEN_BATCH}: {trained}, or the filter", facts.source(GEN_BATCH))


@rule("RLX235")
def unread_limits(facts: VerlFacts) -> Iterator[Flaw]:
    if not (facts.uses_v1 and facts.filters_groups):
        return
    for key, idle in ((_MOST_BATCHES, 0), (GEN_BATCH, 1)):
        if facts.count(key) not in (None, idle):
            message = f"{facts.named(key)}: verl {facts.settings.version} does not read it"
            yield warning(message, "remove it, or the program of the DAPO recipe", facts.source(key))
