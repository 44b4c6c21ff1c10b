"""Check that the run produces a result: its validations, checkpoints and logs."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.key_names import LOGGER
from rlx.backends.verl.rules.facts import ACTOR, MODEL, ROLLOUT, VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule, warning

EVERY = "trainer.test_freq"
FILTER = "algorithm.filter_groups"
_SAVE = "trainer.save_freq"
# Logger -> (variables that log in, variable and value with which it works offline).
_ONLINE = {
    "wandb": (("WANDB_API_KEY",), ("WANDB_MODE", ("offline", "disabled"))),
    "swanlab": (("SWANLAB_API_KEY",), ("SWANLAB_MODE", ("local", "offline", "disabled"))),
    "vemlp_wandb": (("VOLC_ACCESS_KEY_ID", "WANDB_API_KEY"), ("WANDB_MODE", ("offline",))),
    "clearml": (("CLEARML_API_ACCESS_KEY",), ("CLEARML_OFFLINE_MODE", ("1",))),
}
_MLFLOW, _MLFLOW_URI = "mlflow", "MLFLOW_TRACKING_URI"
# Of all versions; "tracking" is an old name of wandb.
_KNOWN = ("console", "file", "tensorboard", _MLFLOW, "trackio", "rl_insight", "tracking", *_ONLINE)


@rule("RLX731")
def filtered_end(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, every, steps = f"{FILTER}.enable", facts.count(EVERY), facts.steps
    if not facts.filters_groups or not facts.is_dapo_recipe or not every or not steps or steps <= _sure(facts):
        return
    message = f"{facts.source(key)}: the data may end before step {steps}, and eval.every {every} may miss the end"
    fewer = _sure(facts) or max(1, steps // 2)
    yield warning(message, f"eval.every 1, or more epochs, or train.steps {fewer} on the same data", "eval.every")


@rule("RLX732")
def never_validated(facts: VerlFacts) -> Iterator[RuleFinding]:
    every = facts.whole(EVERY)
    if every is not None and every < 1 and facts.recipe.eval.post is None:
        fits = f"eval.every {one_of(near(divisors(facts.steps), 10))}" if facts.steps else "set eval.every"
        named = facts.named(EVERY) if facts.recipe.eval.every else "eval.every null"
        yield warning(f"{named}: nothing is validated after training starts", fits, "eval.every")


@rule("RLX733")
def rare_validation(facts: VerlFacts) -> Iterator[RuleFinding]:
    every, steps = facts.whole(EVERY), facts.steps
    if every and steps and every > steps > 1:
        message = f"{facts.named(EVERY)} is more than the {steps} steps: only the last one is validated"
        yield warning(message, f"eval.every {one_of(near(divisors(steps), steps // 5 or 1))}", "eval.every")


@rule("RLX739")
def nothing_trained(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.is_true("trainer.val_only") and facts.is_true("trainer.val_before_train"):
        source = facts.source("trainer.val_only")
        yield warning(f"{source}: the run ends after the first validation", f"remove {source}", source)
    warmup, steps = facts.whole("trainer.critic_warmup"), facts.steps
    if warmup and steps and warmup > steps:
        source = facts.source("trainer.critic_warmup")
        yield error(f"{source} {warmup} of {steps} steps: the actor is never updated", f"at most {steps}", source)


@rule("RLX738")
def last_validation_of_fork(facts: VerlFacts) -> Iterator[RuleFinding]:
    every, steps = facts.count(EVERY), facts.steps
    is_fork = facts.recipe.aqn is not None and facts.recipe.aqn.provider == "builtin"
    if is_fork and every and steps and every <= steps and steps % every:
        message = f"{facts.named(EVERY)} does not divide the {steps} steps, and a fork before 9ef1cbd8 skips the last"
        yield note(message, f"eval.every {one_of(near(divisors(steps), every))}", "eval.every")


@rule("RLX740")
def greedy_repeats(facts: VerlFacts) -> Iterator[RuleFinding]:
    evaluation = facts.recipe.eval
    for key, section in (("eval", evaluation), ("eval.post", evaluation.post)):
        if section is not None and section.n > 1 and section.temperature == 0:
            message = f"{key}.n {section.n} with {key}.temperature 0: the answers to a question are all the same"
            yield warning(message, f"{key}.n 1, or {key}.temperature 0.6", f"{key}.n")


@rule("RLX743")
def last_checkpoint(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.eval.post is None:
        return
    every, ends, steps = facts.whole(_SAVE), facts.steps_of_data, facts.count("trainer.total_training_steps")
    if not every or every < 1:
        fits = f"train.save_every {facts.steps}" if facts.steps else "set train.save_every"
        named = facts.named(_SAVE) if facts.recipe.train.save_every else "train.save_every null"
        yield error(f"{named}: eval.post would find no checkpoint", fits, "train.save_every")
    elif ends and steps and ends < steps and ends % every:
        message = f"{facts.named(_SAVE)}: the data ends at step {ends} of {steps}, and that step is not saved"
        yield error(message, f"train.save_every {one_of(near(divisors(ends), every))}", "train.save_every")


@rule("RLX744")
def readable_checkpoint(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.eval.post is None:
        return
    contents = facts.setting(f"{ACTOR}.checkpoint.save_contents")
    if isinstance(contents, list | tuple) and "model" not in contents:
        key = facts.source(f"{ACTOR}.checkpoint.save_contents")
        yield error(f"{key}: the checkpoint would have no model to evaluate", f"remove {key}", key)
    for key in ("trainer.default_local_dir", f"{ACTOR}.checkpoint.async_save"):
        if facts.source(key).startswith("overrides.") and facts.setting(key):
            message = f"{facts.named(key)}: eval.post looks for a finished checkpoint in the run directory"
            yield error(message, f"remove {facts.source(key)}", facts.source(key))
    if facts.is_megatron and facts.lora_rank:
        message = f"{facts.named(f'{MODEL}.lora.rank')}: Megatron's checkpoints keep adapters apart from the weights"
        yield error(message, "eval.post null, or backend.engine fsdp", "model.lora.rank")
    if facts.recipe.layout.nodes > 1:
        message = f"layout.nodes {facts.recipe.layout.nodes}: each machine would keep its part of the checkpoint"
        yield error(message, "eval.post null, or layout.nodes 1", "layout.nodes")


@rule("RLX734")
def online_logger(facts: VerlFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    for name in _loggers(facts):
        keys, (mode, offline) = _ONLINE.get(str(name), ((), ("", ())))
        given = any(key in recipe.secrets for key in keys) or recipe.env.get(mode) in offline
        if keys and not given:
            message = f"{facts.source(LOGGER)}: {name} wants a login, and none is given: if it fails, the run goes on"
            yield warning(message, f'secrets: [{keys[0]}], or env: {{{mode}: "{offline[0]}"}}')


@rule("RLX735")
def no_logger(facts: VerlFacts) -> Iterator[RuleFinding]:
    if LOGGER in facts.settings.written and not isinstance(facts.setting(LOGGER), str | list | tuple):
        yield error(f"{facts.named(LOGGER)}: verl wants a list", f"remove {facts.source(LOGGER)}")


@rule("RLX736")
def resumable(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ACTOR}.checkpoint.save_contents"
    contents, freq = facts.setting(key), facts.whole("trainer.save_freq")
    if freq and freq > 0 and isinstance(contents, list | tuple):
        lacking = [part for part in ("model", "optimizer", "extra") if part not in contents]
        if lacking:
            message = f"{facts.source(key)} leaves out {', '.join(lacking)}: a resumed run starts them anew"
            yield warning(message, f"remove {facts.source(key)}", facts.source(key))


@rule("RLX737")
def resume_disabled(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, freq = "trainer.resume_mode", facts.whole("trainer.save_freq")
    if freq and freq > 0 and facts.setting(key) == "disable":
        message = f"{facts.named(key)} with train.save_every {freq}: the checkpoints are never used"
        fix = f"remove {facts.source(key)}: rlx retry RUN --from-checkpoint sets it"
        yield warning(message, fix, facts.source(key))


@rule("RLX741")
def shared_checkpoints(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = "trainer.default_local_dir"
    if facts.source(key).startswith("overrides.") and facts.whole("trainer.save_freq") != -1:
        message = f"{facts.source(key)}: every run of this recipe would save there and resume from there"
        yield warning(message, f"remove {facts.source(key)}", facts.source(key))


@rule("RLX742")
def known_logger(facts: VerlFacts) -> Iterator[RuleFinding]:
    for name in _loggers(facts):
        if name not in _KNOWN:
            message = f"{facts.source(LOGGER)}: verl has no logger {name}"
            yield error(message, f"one of {', '.join(sorted(_KNOWN))}", facts.source(LOGGER))


@rule("RLX745")
def own_mlflow(facts: VerlFacts) -> Iterator[RuleFinding]:
    keys = [LOGGER] if _MLFLOW in _loggers(facts) else []
    keys += [key for key in (f"{ROLLOUT}.trace.backend",) if facts.setting(key) == _MLFLOW]
    recipe = facts.recipe
    given = _MLFLOW_URI in (*recipe.env, *recipe.secrets) or any(key.endswith(_MLFLOW_URI) for key in recipe.overrides)
    if keys and not given:
        message = (
            f"{facts.source(keys[0])}: mlflow, and nothing sets {_MLFLOW_URI}, so it is /tmp/mlruns.db for everybody"
        )
        yield warning(message, f"env: {{{_MLFLOW_URI}: http://SERVER:5000}}, or sqlite:// and a file of your own")


def _loggers(facts: VerlFacts) -> list[object]:
    """Without those that the recipe's `track` names: they have their place and their login by other rules."""
    value, track = facts.setting(LOGGER), facts.recipe.track
    names = list(value) if isinstance(value, list | tuple) else [value] if isinstance(value, str) else []
    return [name for name in names if track is None or name not in track.to]


def _sure(facts: VerlFacts) -> int:
    """Count the steps for which the data lasts even if each takes as many batches as it may; 0 without a limit."""
    most, rows, generated = facts.count(f"{FILTER}.max_num_gen_batches"), facts.train_rows, facts.generated
    epochs = facts.count("trainer.total_epochs")
    return rows // generated * epochs // most if most and rows and generated and epochs else 0
