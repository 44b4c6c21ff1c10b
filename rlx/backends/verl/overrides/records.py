"""Set what the run leaves behind, and where: names, loggers, checkpoints, validation outputs."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override, path_on_all_nodes, run_path
from rlx.backends.shared.post import training_outputs
from rlx.backends.verl.overrides.base import Rendering


def overrides(rendering: Rendering) -> Iterator[Override]:
    resolved = rendering.resolved
    track = rendering.recipe.track
    if track is not None and track.project is not None:
        yield Override("trainer.project_name", track.project, "track.project")
    else:
        yield Override("trainer.project_name", rendering.recipe.name, "name")
    yield Override("trainer.experiment_name", f"{resolved.arm}-s{rendering.recipe.seed}", "seed")
    # The default asks for wandb and fails without a login.
    yield Override("trainer.logger", ["console", "file", *(track.to if track else ())], "track.to" if track else "name")
    # Each worker writes its part of a checkpoint on its own node.
    checkpoints = path_on_all_nodes(rendering.recipe, "checkpoints")
    outputs = run_path("RLX_ATTEMPT_DIR", training_outputs(rendering.recipe))
    yield Override("trainer.default_local_dir", checkpoints, "name", verbatim=True)
    # verl 0.6 reads it for Megatron, too, but lists it for FSDP only.
    yield rendering.added("trainer.validation_data_dir", outputs, "name", verbatim=True)
    yield Override("hydra.run.dir", run_path("RLX_ATTEMPT_DIR", "hydra"), "name", verbatim=True)
