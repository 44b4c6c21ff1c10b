"""Launches of a back-end's users, read as a recipe, key by key, or as a script that runs unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rlx.model.launch_plan import SCRIPT_COMMAND, SCRIPT_ENV
from rlx.model.run_dir import LOG_FILE, PRINTED_FILE

if TYPE_CHECKING:
    from rlx.backends.shared.rendering import EffectiveSettings
    from rlx.model import Finding, LaunchPlan, Site, StatedExpectations
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Aqn

ABSENT = object()
"""What a reader returns for a value that the recipe's key cannot have."""
CONFIG_NAME = "--config-name"
"""Hydra's option, which counts as a key of the launch."""
TRAINS_NOTHING = "trains nothing"
"""Part of what a back-end says of a program that only prepares, generates or measures."""
Reader = Callable[[object], object]
HOME = "${oc.env:HOME}/"


@dataclass(frozen=True, slots=True)
class UsersLaunch:
    """What a launch starts and sets. `program` is a module, or a file; `keys` may have Hydra's prefixes.

    `config_name` is the configuration that it starts from, "" for the program's own. `device` is the kind of devices
    where the launch shows it, `version` the back-end's where a person says it, `workdir` the folder that it starts in.
    """

    program: str
    keys: Mapping[str, object]
    config_name: str = ""
    device: str = ""
    version: str = ""
    workdir: str = ""


@dataclass(frozen=True, slots=True)
class RecipeField:
    """The key of a back-end that means the same as `path` in a recipe. `read` converts its value."""

    key: str
    path: str
    read: Reader


@dataclass(frozen=True, slots=True)
class Rendered:
    """The value of a key in the launch of a recipe. `source` is the dotted recipe key that it follows from."""

    value: object
    source: str


class KeysPart(Protocol):
    """The part `users_keys` of a back-end."""

    OWN: Mapping[str, str]
    """Keys that rlx always writes, with any recipe -> why."""
    EXAMPLE: str
    """How a launch of this back-end begins, as its users write it."""

    def takes(self, program: str) -> bool:
        """Tell whether the program is this back-end's."""

    def program_of(self, tree: Mapping[str, Any]) -> str:
        """Name the program that trains by this configuration; "" for a configuration of another back-end."""

    def file_of(self, program: str, config_name: str, folder: str) -> str:
        """Name the user's file from which a launch starts; "" where it starts from the back-end's own."""

    def keys_in(self, file: Path, tree: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the keys of such a file, whose content is `tree`, and of files beside it that it includes. Raises
        UsageError for one that is wrong.
        """

    def foreign(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return those keys that no version of the back-end has: a fork's."""

    def added(self, resolved: ResolvedRecipe, keys: Collection[str]) -> Mapping[str, object]:
        """Return what the recipe's launch sets beyond these keys, where the back-end's default is another value."""

    def refusal(self, program: str) -> tuple[str, str] | None:
        """Return why no recipe can start this program of the back-end, and the fix; None if one can."""

    def values(self, launch: UsersLaunch) -> Mapping[str, object]:
        """Return the recipe's values by dotted path: each that the launch, or the back-end's own default, sets."""

    def beyond_defaults(self, keys: Mapping[str, object]) -> Mapping[str, object]:
        """Those of all keys of a configuration that have another value than the back-end's own."""

    def bare(self, key: str) -> str:
        """Return the key as the back-end reads it, without prefix."""

    def override(self, key: str, value: object, backend: Mapping[str, str]) -> tuple[str, object]:
        """Return the key and value as a recipe's `overrides` has them."""

    def rendered(self, resolved: ResolvedRecipe) -> Mapping[str, Rendered]:
        """Each key that the recipe's launch sets, without prefix. Raises UsageError where it cannot be written."""


def same(one: object, other: object) -> bool:
    """Tell whether the back-end gets the same: 1 is 1.0, a tuple a list, and `~/` the home folder."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) and isinstance(other, str):
        return home(one) == home(other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return one == other


def setting_value(settings: EffectiveSettings, key: str) -> object:
    """Return the value of a key; a path below the home folder as written: its full form is unknown before the start."""
    value = settings.written.get(key)
    return value if isinstance(value, str) and value.startswith(HOME) else settings.get(key)


def home(text: str) -> str:
    """Write the home folder of a path as rlx does for OmegaConf."""
    return HOME + text[2:] if text.startswith("~/") else text


def from_home(value: object) -> object:
    """Write the home folder of a path as a recipe does; return any other value as it is."""
    return "~/" + value.removeprefix(HOME) if isinstance(value, str) and value.startswith(HOME) else value


def host_path(value: object) -> object:
    """Read a path on the host as a recipe has it: absolute, or below the home folder."""
    path = from_home(value)
    if not isinstance(path, str):
        return ABSENT
    return path if path.startswith(("/", "~/")) and "${" not in path and "\n" not in path else ABSENT


def model_path(value: object) -> object:
    """Read the path of a model, or its name on the Hugging Face hub."""
    from rlx.recipe.fields import is_hub_id

    return value if isinstance(value, str) and is_hub_id(value) else host_path(value)


def full_path(value: object, workdir: str) -> object:
    """Read a path on the host; complete one that is relative to the folder of the launch."""
    if workdir and isinstance(value, str) and value and not value.startswith(("/", "~")) and "${" not in value:
        return host_path(f"{workdir.rstrip('/')}/{value.removeprefix('./')}")
    return host_path(value)


def whole(value: object) -> object:
    """Read a count of at least one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else ABSENT


def often(value: object) -> object:
    """Read an interval; None for never."""
    return None if value is None or (isinstance(value, int) and value <= 0) else whole(value)


def number(value: object) -> object:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return ABSENT
    try:
        return float(value)
    except OverflowError:
        return ABSENT


def truth(value: object) -> object:
    return value if isinstance(value, bool) else ABSENT


def text(value: object) -> object:
    return value if isinstance(value, str) and value and "${" not in value else ABSENT


def among(*words: str, **others: str) -> Reader:
    """Read one of the words; `others` maps further words to them."""
    return lambda value: others.get(str(value), value if value in words else ABSENT)


@dataclass(frozen=True, slots=True)
class UsersScript:
    """`file` is the name that it has beside others, `text` its content, `workdir` the folder on the host it starts in.

    `backend` is the trainer that it names, "" where none is known. `args` are its arguments; `command` is the command
    line that was given in place of a script, and `text` was made of. `env` is what the person gave to this arm;
    `control` the arm that the others of the launch are compared with. `aqn` is the noise that is to be added from
    outside, over so many `steps`; None and 0: none. `device_list` are the devices that a person named. `secrets` are
    names of variables. `findings` are those about the script and its surroundings. `is_apart`: it may name processes
    of others. `stated` is what its launch expects of it.
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
    backend: str = ""
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    control: str | None = None
    findings: tuple[Finding, ...] = ()
    is_apart: bool = False
    stated: StatedExpectations | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Return what the person set for this run beside the script, as keys of a treatment."""
        words = [SCRIPT_COMMAND] if self.args or self.command else []
        return (*(["aqn"] if self.aqn else []), *(f"{SCRIPT_ENV}{name}" for name in self.env), *words)


class UsersScriptPart(Protocol):
    """The part `users_script` of a back-end: `plan` if it takes noise from outside, else `NO_NOISE`, the reason.

    `NAMED` finds the back-end in a script, `STEPS` the number of steps as its first group.
    """

    NAMED: re.Pattern[str]
    STEPS: re.Pattern[str]
    NO_NOISE: str

    def plan(self, script: UsersScript, site: Site) -> LaunchPlan:
        """Plan the launch of the script, without findings about its lines."""


@dataclass(frozen=True, slots=True)
class UsersScriptFrame:
    """What surrounds the script in launch.sh, by the names of the template. `path` is below the run directory.

    `arm` and `seed` are exported, `args` handed to the script.

    The configuration is taken out of the `log` of the attempt, from the sed address `begin` on, into `printed`.
    `is_apart`: the script runs in a process namespace, where root may have one.
    `joins`: the Ray that the job is in, if the script uses one.
    """

    title: str
    device: str
    env: Mapping[str, str]
    path_prefix: tuple[str, ...]
    setup: tuple[str, ...]
    workdir: str
    path: str
    begin: str
    arm: str
    seed: int
    args: tuple[str, ...] = ()
    log: str = LOG_FILE
    printed: str = PRINTED_FILE
    nodes: int = 1
    is_apart: bool = False
    joins: bool = False
    python: str = "python3"
