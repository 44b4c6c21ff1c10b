"""Whether the run will leave a result behind: validations, loggers, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.preflight.rules.facts import ACTOR, Facts
from rlx.preflight.rules.registry import Flaw, error, rule, warning
from rlx.preflight.rules.words import divisors, near, one_of

EVERY, LOGGER = "trainer.test_freq", "trainer.logger"
# Logger -> (variables that log in, variable and value with which it works offline).
_ONLINE = {
    "wandb": (("WANDB_API_KEY",), ("WANDB_MODE", ("offline", "disabled"))),
    "swanlab": (("SWANLAB_API_KEY",), ("SWANLAB_MODE", ("local", "offline", "disabled"))),
    "vemlp_wandb": (("VOLC_ACCESS_KEY_ID", "WANDB_API_KEY"), ("WANDB_MODE", ("offline",))),
    "clearml": (("CLEARML_API_ACCESS_KEY",), ("CLEARML_OFFLINE_MODE", ("1",))),
}


@rule(
    "RLX731",
    title="filtered groups can end the data before the last step",
    why="a step may take several batches, so the epochs end early, and verl stops without a last validation",
    fix="an `eval.every` on which the run is sure to end, or `train.steps` well below what the data gives",
    source="verl fit(): is_last_step validates, the end of the dataloader does not; 28 of 29 steps in a public log",
)
def filtered_end(facts: Facts) -> Iterator[Flaw]:
    key, every, steps = "algorithm.filter_groups.enable", facts.whole(EVERY), facts.steps
    if not facts.is_true(key) or not every or every < 1 or not steps:
        return
    message = f"{facts.source(key)}: the data may end before step {steps}, and eval.every {every} may miss the end"
    yield warning(message, f"eval.every 1, or train.steps {max(1, steps // 2)} on the same data", "eval.every")


@rule(
    "RLX732",
    title="a run that is never validated",
    why="there is no number to compare: the verdict can only be about the training",
    fix="`eval.every`",
    source="verl trainer.test_freq -1 validates neither during nor after training",
)
def never_validated(facts: Facts) -> Iterator[Flaw]:
    every = facts.whole(EVERY)
    if every is not None and every < 1:
        fits = f"eval.every {one_of(near(divisors(facts.steps), 10))}" if facts.steps else "set eval.every"
        yield warning(f"{facts.named(EVERY)}: nothing is validated after training starts", fits, "eval.every")


@rule(
    "RLX733",
    title="validations rarer than the run is long",
    why="only the last step is validated, and the course in between is not seen",
    fix="an `eval.every` that divides the steps",
    source="verl fit(): global_steps % test_freq",
)
def rare_validation(facts: Facts) -> Iterator[Flaw]:
    every, steps = facts.whole(EVERY), facts.steps
    if every and steps and every > steps > 1:
        message = f"{facts.named(EVERY)} is more than the {steps} steps: only the last one is validated"
        yield warning(message, f"eval.every {one_of(near(divisors(steps), steps // 5 or 1))}", "eval.every")


@rule(
    "RLX734",
    title="a logger that needs the network or a login",
    why="training hosts have neither as a rule: verl fails at the start, or waits",
    fix="leave the loggers to rlx, or give the key in `secrets`, or switch it to offline",
    source="verl/utils/tracking.py",
)
def online_logger(facts: Facts) -> Iterator[Flaw]:
    loggers = facts.setting(LOGGER)
    recipe = facts.recipe
    for name in loggers if isinstance(loggers, list | tuple) else (loggers,):
        keys, (mode, offline) = _ONLINE.get(str(name), ((), ("", ())))
        given = any(key in recipe.secrets for key in keys) or recipe.env.get(mode) in offline
        if keys and not given:
            message = f"{facts.source(LOGGER)}: {name} wants a login, and none is given"
            yield warning(message, f'secrets: [{keys[0]}], or env: {{{mode}: "{offline[0]}"}}')


@rule(
    "RLX735",
    title="no list of loggers",
    why="verl ends with: 'NoneType' object is not iterable",
    fix="remove the override",
    source="verl/utils/tracking.py:53",
)
def no_logger(facts: Facts) -> Iterator[Flaw]:
    if LOGGER in facts.settings.written and not facts.setting(LOGGER):
        yield error(f"{facts.named(LOGGER)}: verl wants a list", f"remove {facts.source(LOGGER)}")


@rule(
    "RLX736",
    title="checkpoints that nobody can resume",
    why="without model, optimizer and the rest a run begins anew after a crash, and its checkpoints only cost disk",
    fix="leave `save_contents` to verl, or `save_every: null`",
    source="verl checkpoint managers: save_contents [model, optimizer, extra]; resume loads load_contents",
)
def resumable(facts: Facts) -> Iterator[Flaw]:
    key = f"{ACTOR}.checkpoint.save_contents"
    contents, freq = facts.setting(key), facts.whole("trainer.save_freq")
    if freq and freq > 0 and isinstance(contents, list | tuple):
        lacking = [part for part in ("model", "optimizer", "extra") if part not in contents]
        if lacking:
            message = f"{facts.source(key)} leaves out {', '.join(lacking)}: no run can go on from these checkpoints"
            yield warning(message, f"remove {facts.source(key)}", facts.source(key))


@rule(
    "RLX737",
    title="checkpoints are written and never resumed from",
    why="resume_mode disable starts from step 0 after every crash",
    fix="leave `trainer.resume_mode` at auto, or `save_every: null`",
    source="verl trainer _load_checkpoint: resume_mode disable returns 0",
)
def resume_disabled(facts: Facts) -> Iterator[Flaw]:
    key, freq = "trainer.resume_mode", facts.whole("trainer.save_freq")
    if freq and freq > 0 and facts.setting(key) == "disable":
        message = f"{facts.named(key)} with train.save_every {freq}: the checkpoints are never used"
        yield warning(message, f"remove {facts.source(key)}", facts.source(key))


@rule(
    "RLX739",
    title="nothing is trained",
    why="val_only ends after the first validation, and a critic warm-up as long as the run never updates the actor",
    fix="remove the override",
    source="verl fit(): val_only returns after _validate; update_actor only when critic_warmup <= global_steps",
)
def nothing_trained(facts: Facts) -> Iterator[Flaw]:
    if facts.is_true("trainer.val_only"):
        source = facts.source("trainer.val_only")
        yield error(f"{source}: the run ends after the first validation", f"remove {source}", source)
    warmup, steps = facts.whole("trainer.critic_warmup"), facts.steps
    if warmup and steps and warmup > steps:
        source = facts.source("trainer.critic_warmup")
        yield error(f"{source} {warmup} of {steps} steps: the actor is never updated", f"at most {steps - 1}", source)


@rule(
    "RLX740",
    title="validation samples at temperature 0 more than once",
    why="greedy answers to one question are all the same: the extra ones cost time and make n look larger",
    fix="`eval.n: 1`, or an `eval.temperature` above 0",
    source="verl rollout val_kwargs: do_sample false is greedy",
)
def greedy_repeats(facts: Facts) -> Iterator[Flaw]:
    evaluation = facts.recipe.eval
    if evaluation.n > 1 and evaluation.temperature == 0:
        message = f"eval.n {evaluation.n} with eval.temperature 0: the answers to a question are all the same"
        yield warning(message, "eval.n 1, or eval.temperature 0.6", "eval.n")


@rule(
    "RLX741",
    title="checkpoints outside the run directory",
    why="several runs write to one folder, and one resumes from another's checkpoint",
    fix="remove the override: rlx gives each run its own",
    source="verl resume_mode auto takes the latest in default_local_dir",
)
def shared_checkpoints(facts: Facts) -> Iterator[Flaw]:
    key = "trainer.default_local_dir"
    if facts.source(key).startswith("overrides.") and facts.whole("trainer.save_freq") != -1:
        message = f"{facts.source(key)}: every run of this recipe would save there and resume from there"
        yield warning(message, f"remove {facts.source(key)}", facts.source(key))
