"""The question which back-end a run would import on its host, asked where launch.sh would start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.shared.shell import render_template
from rlx.hosts.sent_python import BARE_PATH
from rlx.model import InstallationQuestion, Site
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class _Look:
    """The parts of look.sh. `setup`, `env` and `path_prefix` are the host's; `about` are words for config_tree.py."""

    device: str
    python: str
    workdir: str
    about: Sequence[str]
    paths: Sequence[str]
    env: Mapping[str, str]
    path_prefix: Sequence[str]
    setup: Sequence[str]
    look: str
    start: str = BARE_PATH
    nodes: int = 1


def installation_question(
    recipe: Recipe, site: Site, package: str, folder: str, entrypoint: str, paths: Sequence[str] = ()
) -> InstallationQuestion:
    """Ask for `package` with its settings in `folder`. Nothing that the recipe names is started or set for it.

    `paths` are searched before what is installed. On the same way it brings the model's config.json.
    """
    backend = recipe.backend
    script = _Look(
        device=recipe.layout.device,
        python=backend.python,
        workdir=backend.workdir or "",
        about=(package, folder, entrypoint, recipe.model.path),
        paths=(*paths, *recipe.env.get("PYTHONPATH", "").split(":")),
        env=site.env,
        path_prefix=site.path_prefix,
        setup=site.setup,
        look=(payload_folder() / "config_tree.py").read_text(encoding="utf-8"),
    )
    return InstallationQuestion(
        script=render_template("look.sh.j2", script),
        package=package,
        entrypoint=entrypoint,
        python=backend.python,
        folder=backend.workdir,
    )
