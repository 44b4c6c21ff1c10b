"""Turn a user's script, or a plain command line, into launch plans, so that it runs like a recipe."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from rlx.errors import UsageError
from rlx.model.run_dir import COMMAND_FILE
from rlx.secret_text import is_secret, lines_with_secrets, secrets_in

if TYPE_CHECKING:
    from rlx.api.hosts import Target
    from rlx.api.planning import Plans
    from rlx.backends.shared.users_launches import UsersScriptPart
    from rlx.model import Finding, Image, LaunchPlan, StatedExpectations
    from rlx.planning.host_query import QueriedHost
    from rlx.recipe.schema import Aqn

_MOST_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NOISE_KEYS = ("sigma_start", "sigma_end", "stages", "schedule", "steps")
_NOISE_FORM = "--aqn sigma_start=0.01,sigma_end=0.0001,stages=10,steps=1000"
_EXPECT_FORM = "--expect steps=116,every=20,items=1319; every=0 is no validation"
_ARM_FORM = "--arm NAME, or --arm 'NAME:K=V ARGS'"
_NO_ENV: Mapping[str, str] = MappingProxyType({})
_SET_BY_RLX = re.compile(r"RLX_\w+|RAY_(?:ADDRESS|TMPDIR|AUTH_MODE|AUTH_TOKEN_PATH)|\w+_FILE_LOGGER_PATH")
_DEVICES = re.compile(r"(?:ASCEND_RT|CUDA)_VISIBLE_DEVICES")
# What every login and every shell has of its own.
_OF_A_HOST = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PATH|PWD|OLDPWD|HOST|HOSTNAME|LANG|LC_\w+|TERM|TMPDIR|TZ|MAIL|EDITOR|DISPLAY|IFS|E?UID|PPID"
    r"|SHLVL|BASH\w*|PS\d|OPTARG|OPTIND|SSH_\w+|XDG_\w+|TMUX\w*|PYTHONUNBUFFERED"
)
_MOST_SHOWN = 8


def plan_script(
    path: str | Path | None,
    name: str,
    *,
    arm: str | Sequence[str] | None = None,
    seed: int | Sequence[int] | None = None,
    aqn: str | None = None,
    expect: str | None = None,
    host: str | None = None,
    container: str | Image | None = None,
    devices: str | None = None,
    workdir: str | None = None,
    secrets: Sequence[str] = (),
    accepts_lines: bool = False,
    env: Mapping[str, str] = _NO_ENV,
    args: Sequence[str] = (),
) -> Plans:
    """Plan a run of a bash script, unchanged, for each of these arms and seeds, and query its host.

    Without a `path`, `args` are a command line, else the arguments of the script; `env` are its variables. An arm is a
    name, or `NAME:K=V ARGS` with the variables and arguments that it has beyond those of all; the first one is the
    control. `aqn` is noise to add from outside, as `sigma_start=…,sigma_end=…,stages=…,steps=…`. `expect` is what each
    run is checked against, besides the configuration that its log prints, as `steps=…,every=…,items=…`. `workdir` is
    the folder on the host that it starts in: by default the current one on this machine, the home directory elsewhere.
    `accepts_lines` lets it end others' processes and leave its run. Raises UsageError for a script, arm, variable or
    noise that cannot be used, HostError.
    """
    from rlx.api.hosts import HostQueries, named_target
    from rlx.api.planning import PlannedRun, Plans
    from rlx.backends.shared.users_launches import UsersScript
    from rlx.hosts.inventory.host_devices import parse_devices
    from rlx.planning.host_requirements import HostRequirements
    from rlx.planning.preflight import sealed_plan
    from rlx.planning.probing.machine import reach_of

    script = read_script(path, name, [arm] if isinstance(arm, str) else arm or (), aqn, env, args, expect)
    target = named_target(host, container, devices)
    if target.workers:
        raise UsageError(f"--host {host}: a script runs on one host", "several hosts need a recipe with layout.nodes")
    looks = HostQueries(target)
    named = parse_devices(devices) if devices is not None else None
    needed = named if isinstance(named, int) else len(named) if named else 0
    looks.begin(HostRequirements(declared=target.declared, devices=needed))
    place, queried = looks.found(), looks.result()
    start = workdir or (str(Path.cwd()) if place.is_here else "~/")
    leased = _devices(place, queried)
    control = script.arms[0].name if len(script.arms) > 1 else None
    seeds = (seed,) if isinstance(seed, int) else tuple(dict.fromkeys(seed or (1,)))
    given = set.intersection(*({*env, *one.env} for one in script.arms)) | {*secrets, *place.site.env}
    notes = tuple(_not_given(script, given))
    reach = reach_of(queried[0].results) if queried else None
    plans = []
    for number, one in ((number, one) for number in seeds for one in script.arms):
        words, is_command = (*args, *one.args), path is None
        wanted = UsersScript(
            name,
            one.name,
            number,
            script.file,
            f"#!/usr/bin/env bash\n{shlex.join(words)}\n" if is_command else script.text,
            start,
            *leased,
            tuple(secrets),
            script.noise,
            script.steps,
            script.backend,
            args=() if is_command else words,
            command=words if is_command else (),
            env={**env, **one.env},
            control=control,
            findings=notes,
            is_apart=accepts_lines,
            stated=script.stated,
        )
        plan = place.placed(script.engine.plan(wanted, place.site))
        plans.append(PlannedRun(sealed_plan(plan, accepts_lines=accepts_lines, reach=reach)))
    return Plans(tuple(plans), queried)


def _not_given(script: _Script, given: Collection[str]) -> Iterator[Finding]:
    """Name what the script reads of this environment and does not get; nothing of a script that cannot be read."""
    from rlx.model import Finding, Severity
    from rlx.model.run_dir import SCRIPT_DIR
    from rlx.shell_reader import read_script as read

    try:
        found = read(script.text, script.file).from_outside
    except UsageError:
        return
    own = (_OF_A_HOST, _SET_BY_RLX, _DEVICES)
    there = (name for name in found if name in os.environ and name not in given)
    names = [name for name in there if not any(pattern.fullmatch(name) for pattern in own)]
    if not names:
        return
    shown = ", ".join(names[:_MOST_SHOWN]) + (f" and {len(names) - _MOST_SHOWN} more" if names[_MOST_SHOWN:] else "")
    hidden = [name for name in names if is_secret(name, os.environ[name])]
    plain = [name for name in names if name not in hidden]
    ways = [
        *([f"--env {plain[0]} gives it the value from here, --env {plain[0]}=VALUE another"] if plain else []),
        *([f"--secret {hidden[0]} gives it the secret"] if hidden else []),
    ]
    message = f"the script reads {shown}: set here, and not given to it"
    yield Finding("RLX060", Severity.NOTE, message, "; ".join(ways), f"{SCRIPT_DIR}/{script.file}")


def check_written(plans: Sequence[LaunchPlan]) -> None:
    """Refuse a script that contains a secret, because a written plan contains the script. Raises UsageError."""
    from rlx.model.run_dir import SCRIPT_DIR

    for file in (file for plan in plans for file in plan.files if file.path.startswith(f"{SCRIPT_DIR}/")):
        for line in lines_with_secrets(file.content):
            raise UsageError(
                f"{file.path}:{line}: holds a password or key, and a written plan would show it",
                "take it out and name its variable: --secret NAME; or leave --json out",
            )


@dataclass(frozen=True, slots=True)
class ScriptArm:
    """An arm of a script: the variables and arguments that it has beyond those of all arms."""

    name: str
    env: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()


def read_arm(given: str) -> ScriptArm:
    """Read `NAME`, or `NAME:K=V… ARGS` as a shell reads what stands before and behind a command.

    `--` begins the arguments, where the first of them look like variables. Raises UsageError.
    """
    name, _, rest = given.partition(":")
    if not _NAME.fullmatch(name):
        raise UsageError(f"--arm {given!r}: {name!r} is no name of an arm", f"letters, digits and . _ -; {_ARM_FORM}")
    try:
        words = shlex.split(rest)
    except ValueError as problem:
        raise UsageError(f"--arm {given!r}: {problem}".lower(), f"quote as in a shell: {_ARM_FORM}") from None
    env: dict[str, str] = {}
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        env[found[1]] = found[2]
        words = words[1:]
    return ScriptArm(name, env, tuple(words[1:] if words[:1] == ["--"] else words))


@dataclass(frozen=True, slots=True)
class _Script:
    """What is known of a script before its host is. `steps` are those of its noise, 0 without any.

    `backend` is the trainer that it names, "" where none is known.
    """

    file: str
    text: str
    arms: tuple[ScriptArm, ...]
    engine: UsersScriptPart
    backend: str
    noise: Aqn | None
    steps: int
    stated: StatedExpectations | None


def read_script(
    path: str | Path | None,
    name: str,
    arms: Sequence[str] = (),
    aqn: str | None = None,
    env: Mapping[str, str] = _NO_ENV,
    args: Sequence[str] = (),
    expect: str | None = None,
) -> _Script:
    """Read the script, or the command line, its arms and its noise; no host is asked.

    Raises UsageError for what cannot be used.
    """
    if path is None and not args:
        raise UsageError("run what?", "rlx run train.sh, or rlx run -- python train.py --lr 1e-6")
    file = COMMAND_FILE if path is None else Path(path).name
    for label, word in (("--name", name), ("--script", file)):
        if not _NAME.fullmatch(word):
            raise UsageError(f"{label} {word!r}", "use up to 100 letters, digits and . _ - (not first)")
    known = tuple(map(read_arm, arms)) or (ScriptArm("main"),)
    for arm in known:
        if sum(arm.name == other.name for other in known) > 1:
            raise UsageError(f"--arm {arm.name}: named twice", "give each arm a name of its own")
    for label, variables in [("--env", env), *((f"--arm {arm.name}", arm.env) for arm in known)]:
        _check_variables(label, variables)
    _check_arguments((*args, *chain.from_iterable(arm.args for arm in known)))
    text = shlex.join(args) if path is None else _read(Path(path))
    engine, backend = _engine(text, wants_noise=aqn is not None)
    noise, steps = _noise(aqn, engine.STEPS.search(text)) if aqn is not None else (None, 0)
    stated = _stated(expect, steps) if expect is not None else None
    return _Script(file, text, known, engine, backend, noise, steps, stated)


def _check_variables(label: str, variables: Mapping[str, str]) -> None:
    """Refuse what no environment can hold, what rlx sets itself, and secrets. Values are not shown."""
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise UsageError(f"{label} {name}: cannot be a variable", f"write {label} NAME=VALUE")
        if _DEVICES.fullmatch(name):
            raise UsageError(f"{label} {name}: rlx sets it to the devices of the run", "choose them with --devices")
        if _SET_BY_RLX.fullmatch(name):
            raise UsageError(f"{label} {name}: rlx sets it for each run", "leave it out")
        if is_secret(name, value):
            raise UsageError(
                f"{label} {name}: looks like a password or key, and a variable is stored and shown in plain text",
                f"export it and name it: --secret {name} (its value may come from --secret-file FILE)",
            )


def _check_arguments(words: Sequence[str]) -> None:
    """Refuse secrets among the arguments: all users of a host see the arguments of its processes."""
    if any("\0" in word for word in words):
        raise UsageError("an argument contains a NUL byte, which no program can get")
    if secrets_in(" ".join(words)) or secrets_in("\n".join(words)):
        raise UsageError(
            "the arguments hold what looks like a password or key, and all users of a host can read them",
            "export it, name it with --secret NAME, and let the program read that variable",
        )


def _read(path: Path) -> str:
    from rlx.local_files import program_of, read_text

    try:
        text = read_text(path, _MOST_BYTES)
    except OSError as problem:
        raise UsageError(f"--script {path}: {problem.strerror}", "name a bash script on this machine") from None
    program = program_of(path.name, text)
    if program == "python":
        fix = f"rlx run --name {path.stem} -- python {path} runs it, from --workdir on its host"
        raise UsageError(f"--script {path}: bash runs it, and this is a Python file", fix)
    if program == "jupyter":
        fix = f"jupyter nbconvert --to script {path}, then rlx run -- python {path.stem}.py"
        raise UsageError(f"--script {path}: bash runs it, and this is a notebook", fix)
    if program not in ("", "bash"):
        raise UsageError(f"--script {path}: bash runs it, and its first line names {program}", "name a bash script")
    if "\0" in text or not text.strip():
        raise UsageError(f"--script {path}: no script")
    return text


def _engine(text: str, *, wants_noise: bool) -> tuple[UsersScriptPart, str]:
    """Find what plans the script, and the trainer that it names, "" for one that rlx does not know.

    Raises UsageError for noise in one that takes none from outside.
    """
    from rlx.backends.registry import parts

    known = {kind: cast("UsersScriptPart", module) for kind, module in parts("users_script")}
    planner = next(part for part in known.values() if not part.NO_NOISE)
    named = {kind: part for kind, part in known.items() if part.NAMED.search(text)}
    if wants_noise and named and planner not in named.values():
        refused = next(iter(named.values()))
        raise UsageError(f"--aqn: {refused.NO_NOISE}", "launch it without --aqn, or write a recipe (rlx init)")
    return planner, next(iter(named), "")


def _devices(place: Target, looks: Sequence[QueriedHost]) -> tuple[str, int, tuple[int, ...]]:
    """Return kind, number and ids of the devices to lease: by default all that the host declares, else all it has.

    Raises UsageError.
    """
    from rlx.hosts.inventory.host_devices import parse_devices
    from rlx.planning.probing.npu import found_devices

    name, device = place.site.host, place.host.device
    wanted = parse_devices(place.devices) if place.devices is not None else None
    found = found_devices(looks[0].results) if looks and place.site.batch is None else None
    kind = device.kind if device else found[0] if found else "cpu"
    if kind == "cpu":
        if wanted and device is None:
            fix = f"rlx doctor {name} shows what it sees; a container needs its devices: --container NAME"
            raise UsageError(f"--devices {place.devices}: {name} has no NPU and no GPU that rlx can see", fix)
        return "cpu", 1, ()
    if wanted is None:
        wanted = device.count if device and device.count else len(found[1]) if found else None
    if not wanted:
        raise UsageError(f"how many {kind} does the script use?", "--devices 8")
    if device is None and found and (missing := _beyond(wanted, found[1])):
        fix = f"rlx doctor {name} shows what it sees"
        raise UsageError(f"--devices {place.devices}: {name} has {len(found[1])} × {kind}, and no {missing}", fix)
    return (kind, wanted, ()) if isinstance(wanted, int) else (kind, len(wanted), wanted)


def _beyond(wanted: tuple[int, ...] | int, found: Sequence[int]) -> str:
    """Name what is wanted and not there; "" for nothing."""
    if isinstance(wanted, int):
        return f"{wanted}" if wanted > len(found) else ""
    return ", ".join(f"number {number}" for number in wanted if number not in found)


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


def _stated(given: str, steps_of_noise: int) -> StatedExpectations:
    """Read --expect. Raises UsageError, also where the noise is for another number of steps."""
    from rlx.model import StatedExpectations

    found: dict[str, int] = {}
    for key, text in _words("--expect", given, ("steps", "every", "items"), _EXPECT_FORM):
        least = 0 if key == "every" else 1
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least):
            raise UsageError(f"--expect {given}: {key} is {text!r}, no number from {least} on", _EXPECT_FORM)
        found[key] = int(text)
    if steps_of_noise and found.get("steps", steps_of_noise) != steps_of_noise:
        raise UsageError(f"--expect {given}: the noise is for {steps_of_noise} steps", "give --aqn the same steps=")
    return StatedExpectations(**found)


def _pairs(given: str) -> dict[str, Any]:
    pairs = _words("--aqn", given, _NOISE_KEYS, _NOISE_FORM)
    return {key: text if key == "schedule" else _number(text, given) for key, text in pairs}


def _words(option: str, given: str, keys: Sequence[str], form: str) -> Iterator[tuple[str, str]]:
    """Yield key and text of each `key=text` of an option. Raises UsageError for another key and for one given twice."""
    seen = set[str]()
    for part in given.split(","):
        key, equals, text = (word.strip() for word in part.partition("="))
        if not equals or key not in keys or key in seen:
            raise UsageError(f"{option} {given}: {part.strip()!r}", f"known are {', '.join(keys)}: {form}")
        seen.add(key)
        yield key, text


def _number(value: str, given: str) -> int | float:
    try:
        return int(value) if value.isdecimal() else float(value)
    except ValueError:
        raise UsageError(f"--aqn {given}: {value!r} is no number", _NOISE_FORM) from None
