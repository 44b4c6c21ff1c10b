"""Check what a run leaves on disk and sends elsewhere: loggers and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, ROLLOUT, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

LOGGER = "trainer.logger"
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


@rule("RLX734")
def online_logger(facts: VerlFacts) -> Iterator[Flaw]:
    recipe = facts.recipe
    for name in _loggers(facts):
        keys, (mode, offline) = _ONLINE.get(str(name), ((), ("", ())))
        given = any(key in recipe.secrets for key in keys) or recipe.env.get(mode) in offline
        if keys and not given:
            message = f"{facts.source(LOGGER)}: {name} wants a login, and none is given"
            yield warning(message, f'secrets: [{keys[0]}], or env: {{{mode}: "{offline[0]}"}}')


@rule("RLX735")
def no_logger(facts: VerlFacts) -> Iterator[Flaw]:
    if LOGGER in facts.settings.written and not isinstance(facts.setting(LOGGER), str | list | tuple):
        yield error(f"{facts.named(LOGGER)}: verl wants a list", f"remove {facts.source(LOGGER)}")


@rule("RLX736")
def resumable(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.checkpoint.save_contents"
    contents, freq = facts.setting(key), facts.whole("trainer.save_freq")
    if freq and freq > 0 and isinstance(contents, list | tuple):
        lacking = [part for part in ("model", "optimizer", "extra") if part not in contents]
        if lacking:
            message = f"{facts.source(key)} leaves out {', '.join(lacking)}: a resumed run starts them anew"
            yield warning(message, f"remove {facts.source(key)}", facts.source(key))


@rule("RLX737")
def resume_disabled(facts: VerlFacts) -> Iterator[Flaw]:
    key, freq = "trainer.resume_mode", facts.whole("trainer.save_freq")
    if freq and freq > 0 and facts.setting(key) == "disable":
        message = f"{facts.named(key)} with train.save_every {freq}: the checkpoints are never used"
        fix = f"remove {facts.source(key)}: rlx retry RUN --from-checkpoint sets it"
        yield warning(message, fix, facts.source(key))


@rule("RLX741")
def shared_checkpoints(facts: VerlFacts) -> Iterator[Flaw]:
    key = "trainer.default_local_dir"
    if facts.source(key).startswith("overrides.") and facts.whole("trainer.save_freq") != -1:
        message = f"{facts.source(key)}: every run of this recipe would save there and resume from there"
        yield warning(message, f"remove {facts.source(key)}", facts.source(key))


@rule("RLX742")
def known_logger(facts: VerlFacts) -> Iterator[Flaw]:
    for name in _loggers(facts):
        if name not in _KNOWN:
            message = f"{facts.source(LOGGER)}: verl has no logger {name}"
            yield error(message, f"one of {', '.join(sorted(_KNOWN))}", facts.source(LOGGER))


@rule("RLX745")
def own_mlflow(facts: VerlFacts) -> Iterator[Flaw]:
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
