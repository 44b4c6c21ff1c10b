"""A launch script of the users' own, which rlx runs as it is: what is known of it before it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rlx.model.run_dir import LOG_FILE, PRINTED_FILE

if TYPE_CHECKING:
    from rlx.model import LaunchPlan, Site
    from rlx.recipe.schema import Aqn


@dataclass(frozen=True, slots=True)
class UsersScript:
    """`file` is the name that it has beside others, `text` its content, `workdir` the folder on the host it starts in.

    `aqn` is the noise that is to be added from outside, over so many `steps`; None and 0: none. `device_list` are the
    devices that a person named. `secrets` are names of variables.
    """

    name: str
    arm: str
    seed: int
    file: str
    text: str
    workdir: str
    device_kind: str
    devices: int
    device_list: tuple[int, ...] = ()
    secrets: tuple[str, ...] = ()
    aqn: Aqn | None = None
    steps: int = 0


class ScriptPart(Protocol):
    """The part `users_script` of a back-end: one that takes noise from outside has `plan`, the others say why not.

    `NAMED` finds the back-end in a script, `STEPS` the number of steps as its first group.
    """

    NAMED: re.Pattern[str]
    STEPS: re.Pattern[str]
    NO_NOISE: str

    def plan(self, script: UsersScript, site: Site) -> LaunchPlan:
        """The launch of the script, without findings about its lines."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What surrounds the script in launch.sh, by the names of the template. `path` is below the run directory.

    The configuration is taken out of the `log` of the attempt, from the sed address `begin` on, into `printed`.
    """

    title: str
    device: str
    env: Mapping[str, str]
    path_prefix: tuple[str, ...]
    setup: tuple[str, ...]
    workdir: str
    path: str
    begin: str
    log: str = LOG_FILE
    printed: str = PRINTED_FILE
    nodes: int = 1
