"""Build a LaunchPlan from the parts of a launch, the same way for every back-end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.shared.post import post_expectations
from rlx.backends.shared.registering import registration_of
from rlx.model import Expectations, LaunchPlan, PlannedFile, Site
from rlx.model.run_dir import LAUNCH_FILE

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

MOST_STEPS = 1_000_000
"""A plan lists each step that is validated or takes noise."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The parts of one back-end. `files` come after recipe.yaml; `promised` is without `eval.post`."""

    version: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    script: str
    files: tuple[PlannedFile, ...]
    promised: Expectations
    devices: int
    device_list: tuple[int, ...] = ()


def launch_plan(resolved: ResolvedRecipe, site: Site, launch: Launch) -> LaunchPlan:
    """One arm with one seed."""
    recipe = resolved.recipe
    return LaunchPlan(
        name=recipe.name,
        arm=resolved.arm,
        control=resolved.control,
        seed=recipe.seed,
        backend=recipe.backend.kind,
        backend_version=launch.version,
        site=site,
        command=launch.command,
        env=launch.env,
        secrets=recipe.secrets,
        files=(*_common_files(resolved, launch), *launch.files),
        expectations=post_expectations(launch.promised, recipe),
        treatment=resolved.treatment,
        recipe=resolved.document,
        device_kind=recipe.layout.device,
        devices=launch.devices,
        device_list=launch.device_list,
        registration=registration_of(recipe.name, resolved.control, resolved.experiment),
    )


def _common_files(resolved: ResolvedRecipe, launch: Launch) -> Iterator[PlannedFile]:
    import yaml

    yield PlannedFile(LAUNCH_FILE, launch.script, 0o700)
    document = yaml.safe_dump(resolved.document, sort_keys=False, allow_unicode=True)
    yield PlannedFile("recipe.yaml", document)
