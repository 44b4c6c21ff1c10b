"""Check what the trackers of a trainer need to send data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

# Each of these variables names the server or the sender.
_LOGIN = {
    "wandb": ("WANDB_API_KEY",),
    "swanlab": ("SWANLAB_API_KEY",),
    "mlflow": ("MLFLOW_TRACKING_URI",),
    "trackio": ("TRACKIO_SERVER_URL", "TRACKIO_SPACE_ID"),
}
# Variables that make a tracker send, and values with which it does not.
_SENDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "wandb": {"WANDB_MODE": ("offline", "disabled")},
    "swanlab": {"SWANLAB_MODE": ("offline", "local", "disabled"), "SWANLAB_API_KEY": ()},
    "mlflow": {"MLFLOW_TRACKING_URI": ("sqlite:", "file:", "/")},
    "trackio": {"TRACKIO_SPACE_ID": (), "TRACKIO_SERVER_URL": ()},
}


@rule("RLX471")
def login(facts: RecipeFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    if recipe.track is None or recipe.track.mode == "offline":
        return
    for name in recipe.track.to:
        names = _LOGIN.get(name, ())
        if names and not any(each in recipe.secrets or each in recipe.env for each in names):
            message = f"track: {name} must be online, and {' or '.join(names)} is not given"
            yield error(message, f"secrets: [{names[0]}], or track.mode: offline", "track.mode")


@rule("RLX472")
def sends_nevertheless(facts: RecipeFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    if recipe.track is None or recipe.track.mode == "online":
        return
    for name in recipe.track.to:
        for variable, harmless in _SENDS.get(name, {}).items():
            value = recipe.env.get(variable)
            if variable in recipe.secrets or (value is not None and not value.startswith(harmless)):
                message = f"track: {name} must be offline, and {variable} makes it send"
                yield warning(message, f"track.mode: online, or remove {variable}", "track.mode")
