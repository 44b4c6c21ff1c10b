"""Trackers that the trainer logs to: what they need to send anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlx.planning.rules.facts import Facts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

# Any of these variables says where to, or who sends.
_LOGIN = {
    "wandb": ("WANDB_API_KEY",),
    "swanlab": ("SWANLAB_API_KEY",),
    "mlflow": ("MLFLOW_TRACKING_URI",),
    "trackio": ("TRACKIO_SERVER_URL", "TRACKIO_SPACE_ID"),
}
# Variables that send, and values with which they do not.
_SENDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "wandb": {"WANDB_MODE": ("offline", "disabled")},
    "swanlab": {"SWANLAB_MODE": ("offline", "local", "disabled"), "SWANLAB_API_KEY": ()},
    "mlflow": {"MLFLOW_TRACKING_URI": ("sqlite:", "file:", "/")},
    "trackio": {"TRACKIO_SPACE_ID": (), "TRACKIO_SERVER_URL": ()},
}


@rule("RLX471")
def login(facts: Facts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.track is None or recipe.track.mode == "offline":
        return
    for name in recipe.track.to:
        names = _LOGIN.get(name, ())
        if names and not any(each in recipe.secrets or each in recipe.env for each in names):
            message = f"track: {name} is to be online, and {' or '.join(names)} is not given"
            yield error(message, f"secrets: [{names[0]}], or track.mode: offline", "track.mode")


@rule("RLX472")
def sends_nevertheless(facts: Facts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.track is None or recipe.track.mode == "online":
        return
    for name in recipe.track.to:
        for variable, harmless in _SENDS.get(name, {}).items():
            value = recipe.env.get(variable)
            if variable in recipe.secrets or (value is not None and not value.startswith(harmless)):
                message = f"track: {name} is to be offline, and {variable} has it send"
                yield warning(message, f"track.mode: online, or remove {variable}", "track.mode")
