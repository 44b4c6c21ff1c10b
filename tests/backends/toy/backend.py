"""A recipe becomes a shell program of a few lines, which counts its steps and scores itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.assembly import Launch, launch_plan
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.shared.shell import on_host
from rlx.model import Expectations, Finding, Installation, InstallationQuestion, LaunchPlan, Site

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

_SCRIPT = """#!/usr/bin/env bash
set -euo pipefail
cd {folder}
for step in $(seq {steps}); do
  echo "toy step $step of {steps}: loss=0.$((9 - step))"
done
echo "toy score after {steps}: {score}"
"""


def check(resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
    return ()


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    return EffectiveSettings(resolved.recipe.backend.version, {}, {}, {})


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion | None:
    return None


def plan(resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
    recipe = resolved.recipe
    steps = _steps(recipe)
    folder = on_host(recipe.backend.workdir) if recipe.backend.workdir else "."
    launch = Launch(
        version=recipe.backend.version,
        command=("toy", f"--steps={steps}"),
        env=dict(recipe.env),
        script=_SCRIPT.format(folder=folder, steps=steps, score=f"{min(1.0, recipe.train.lr):g}"),
        files=(),
        promised=Expectations(
            total_steps=steps,
            validation_steps=(steps,),
            last_step_validated=True,
            validation_items=recipe.data.val_rows,
            validation_samples=1,
            metric="auto",
            noise=None,
            reports_probability_gap=False,
        ),
        devices=1,
    )
    return launch_plan(resolved, site, launch)


def _steps(recipe: Recipe) -> int:
    assert recipe.train.steps is not None
    return recipe.train.steps
