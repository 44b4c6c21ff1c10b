"""Turn a user's launch script into a launch plan, so that it runs like a recipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.hosts import Target
    from rlx.api.planning import Plans
    from rlx.backends.shared.users_launches import UsersScriptPart
    from rlx.model import Image, LaunchPlan
    from rlx.recipe.schema import Aqn

_MOST_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_SHELLS = ("bash", "sh", "dash", "ksh", "zsh")
_NOISE_KEYS = ("sigma_start", "sigma_end", "stages", "schedule", "steps")
_NOISE_FORM = "--aqn sigma_start=0.01,sigma_end=0.0001,stages=10,steps=1000"


def plan_script(
    path: str | Path,
    name: str,
    *,
    arm: str | None = None,
    seed: int | None = None,
    aqn: str | None = None,
    host: str | None = None,
    container: str | Image | None = None,
    devices: str | None = None,
    workdir: str | None = None,
    secrets: Sequence[str] = (),
    accepts_lines: bool = False,
) -> Plans:
    """Plan one run of a bash script, unchanged, and query its host.

    `aqn` is noise to add from outside, as `sigma_start=…,sigma_end=…,stages=…,steps=…`. `workdir` is the folder on the
    host that it starts in: by default the current one on this machine, the home directory elsewhere. `accepts_lines`
    lets it end others' processes and leave its run. Raises UsageError for a script or noise that cannot be used,
    HostError.
    """
    from rlx.api.hosts import HostQueries, named_target
    from rlx.api.planning import PlannedRun, Plans, find_backends
    from rlx.backends.shared.users_launches import UsersScript
    from rlx.planning.preflight import sealed_plan
    from rlx.planning.probing.machine import reach_of

    script = read_script(path, name, arm, aqn)
    target = named_target(host, container, devices)
    if target.workers:
        raise UsageError(f"--host {host}: a script runs on one host", "several hosts need a recipe with layout.nodes")
    looks = HostQueries(target)
    find_backends(looks, [], target)()
    place = looks.found()
    start = workdir or (str(Path.cwd()) if place.is_here else "~/")
    names = (name, arm or "main", 1 if seed is None else seed, Path(path).name)
    wanted = UsersScript(*names, script.text, start, *_devices(place), tuple(secrets), script.noise, script.steps)
    wanted = replace(wanted, is_apart=accepts_lines)
    plan = place.placed(script.engine.plan(wanted, place.site))
    queried = looks.result()
    reach = reach_of(queried[0].results) if queried else None
    return Plans((PlannedRun(sealed_plan(plan, accepts_lines=accepts_lines, reach=reach)),), queried)


def check_written(plans: Sequence[LaunchPlan]) -> None:
    """Refuse a script that contains a secret, because a written plan contains the script. Raises UsageError."""
    from rlx.model.run_dir import SCRIPT_DIR
    from rlx.secret_text import lines_with_secrets

    for file in (file for plan in plans for file in plan.files if file.path.startswith(f"{SCRIPT_DIR}/")):
        for line in lines_with_secrets(file.content):
            raise UsageError(
                f"{file.path}:{line}: holds a password or key, and a written plan would show it",
                "take it out and name its variable: --secret NAME; or leave --json out",
            )


@dataclass(frozen=True, slots=True)
class _Script:
    """What is known of a script before its host is. `steps` are those of its noise, 0 without any."""

    text: str
    engine: UsersScriptPart
    noise: Aqn | None
    steps: int


def read_script(path: str | Path, name: str, arm: str | None = None, aqn: str | None = None) -> _Script:
    """Read the script and its noise; no host is asked. Raises UsageError for what cannot be used."""
    for label, word in (("--name", name), ("--arm", arm or "main"), ("--script", Path(path).name)):
        if not _NAME.fullmatch(word):
            raise UsageError(f"{label} {word!r}", "use up to 100 letters, digits and . _ - (not first)")
    text = _read(Path(path))
    engine = _engine(text, wants_noise=aqn is not None)
    noise, steps = _noise(aqn, engine.STEPS.search(text)) if aqn is not None else (None, 0)
    return _Script(text, engine, noise, steps)


def _read(path: Path) -> str:
    from rlx.local_files import read_text

    try:
        text = read_text(path, _MOST_BYTES)
    except OSError as problem:
        raise UsageError(f"--script {path}: {problem.strerror}", "name a bash script on this machine") from None
    program = _program(text.partition("\n")[0])
    if program and program not in _SHELLS:
        raise UsageError(f"--script {path}: bash runs it, and its first line names {program}", "name a bash script")
    if "\0" in text or not text.strip():
        raise UsageError(f"--script {path}: no script")
    return text


def _program(first_line: str) -> str:
    """Return the program that a script's first line names; "" if none."""
    if not first_line.startswith("#!"):
        return ""
    words = [word for word in first_line[2:].split() if not word.startswith("-")]
    names = [word.rpartition("/")[2] for word in words[:2]]
    return next((name for name in names if name != "env"), "")


def _engine(text: str, *, wants_noise: bool) -> UsersScriptPart:
    """Find the back-end that plans the script. Raises UsageError for noise in one that takes none from outside."""
    from rlx.backends.registry import parts

    known = [cast("UsersScriptPart", module) for _, module in parts("users_script")]
    planner = next(part for part in known if not part.NO_NOISE)
    named = [part for part in known if part.NAMED.search(text)]
    if wants_noise and named and planner not in named:
        raise UsageError(f"--aqn: {named[0].NO_NOISE}", "launch it without --aqn, or write a recipe (rlx init)")
    return planner


def _devices(place: Target) -> tuple[str, int, tuple[int, ...]]:
    """Return kind, number and ids of the devices to lease; by default all of the host. Raises UsageError."""
    from rlx.hosts.inventory.host_devices import parse_devices

    device = place.host.device
    if device is None or device.kind == "cpu":
        if place.devices is not None and device is None:
            name = place.site.host
            raise UsageError(
                f"--devices {place.devices}: the entry of {name} declares no devices",
                f"write device: {{kind: npu, count: 8}} into its entry (rlx hosts show {name} names the file)",
            )
        return "cpu", 1, ()
    wanted = device.count if place.devices is None else parse_devices(place.devices)
    if wanted is None:
        raise UsageError(f"how many {device.kind} does the script use?", "--devices 8")
    return (device.kind, wanted, ()) if isinstance(wanted, int) else (device.kind, len(wanted), wanted)


def _noise(given: str, said: re.Match[str] | None) -> tuple[Aqn, int]:
    """Read --aqn. Where it does not say the steps, the script may have `said` them. Raises UsageError."""
    from pydantic import ValidationError

    from rlx.recipe.schema import Aqn

    values = _pairs(given)
    steps = _steps(values.pop("steps", int(said[1]) if said else None))
    try:
        return Aqn.model_validate(values), steps
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UsageError(f"--aqn {given}: {'.'.join(map(str, first['loc']))} {first['msg']}", _NOISE_FORM) from None


def _steps(said: object) -> int:
    if type(said) is not int or not 1 <= said <= 1_000_000:
        raise UsageError(
            "--aqn: the stages divide the steps of the training, and neither it nor the script says how many",
            f"add steps=N: {_NOISE_FORM}",
        )
    return said


def _pairs(given: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for part in given.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or key not in _NOISE_KEYS or key in values:
            raise UsageError(f"--aqn {given}: {part.strip()!r}", f"known are {', '.join(_NOISE_KEYS)}: {_NOISE_FORM}")
        values[key] = value if key == "schedule" else _number(value, given)
    return values


def _number(value: str, given: str) -> int | float:
    try:
        return int(value) if value.isdecimal() else float(value)
    except ValueError:
        raise UsageError(f"--aqn {given}: {value!r} is no number", _NOISE_FORM) from None
