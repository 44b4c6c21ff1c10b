"""Run a launch script of verl's users as it is, with noise from outside where that is wanted.

Noise needs nothing but the environment: verl imports what VERL_USE_EXTERNAL_MODULES names in each of its processes, and
finds rlx's modules by PYTHONPATH. rlx's own rollout on a CPU takes the noise without that hook.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.shared.noise import NOISE, payload_schedule, payload_settings
from rlx.backends.shared.payload_files import JOB_ENVIRONMENT, contained, modules, program
from rlx.backends.shared.shell import on_host, render_template
from rlx.backends.shared.users_launches import UsersScript, UsersScriptFrame
from rlx.backends.verl.environment import NOISE_HOOK, TRACK_GUARD, with_module
from rlx.backends.verl.overrides import CPU_PLUGIN
from rlx.model import Expectations, Finding, LaunchPlan, Link, PlannedFile, Severity, Site, StatedExpectations
from rlx.model.run_dir import LAUNCH_FILE, PAYLOAD_DIR, SCRIPT_DIR
from rlx.resources import payload_folder
from rlx.schedulers.protocol import gives_ray
from rlx.secret_text import lines_with_secrets

if TYPE_CHECKING:
    from rlx.recipe.schema import Aqn

NAMED = re.compile(r"\bverl\b")
NO_NOISE = ""
_MOST_SHOWN = 5
STEPS = re.compile(r"\btrainer\.total_training_steps=['\"]?(\d{1,7})\b")
# What can be shown without knowing how many processes generate; felt, where the log has the gap.
_LINKS = (Link.ASKED, Link.DRAWN, Link.LIFTED, Link.TRAINED_ON)
_VARIABLES = "VERL_USE_EXTERNAL_MODULES|PYTHONPATH"
_TRACKERS = re.compile(
    r"^(?!\s*#).*\btrainer\.logger=.{0,200}\b(?:wandb|tracking|swanlab|mlflow|tensorboard|trackio|clearml|vemlp_wandb)\b",
    re.MULTILINE,
)
_REPLACES = re.compile(
    rf"^(?!\s*#).*\b({_VARIABLES})=(?!.*\$\{{?\1\b).*|^\s*unset\s.*\b(?:{_VARIABLES})\b.*", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class _Validations:
    noise: bool = False


@dataclass(frozen=True, slots=True)
class _Noise:
    """The noise of a script: validations are to see clean weights."""

    aqn: Aqn | None
    seed: int
    eval: _Validations = _Validations()


def plan(script: UsersScript, site: Site) -> LaunchPlan:
    """Plan the launch of the script. Only its noise is expected, and what its launch states; the log knows the rest."""
    frame = _frame(script, site)
    return LaunchPlan(
        name=script.name,
        arm=script.arm,
        control=script.control,
        seed=script.seed,
        backend=script.backend,
        backend_version="?",
        site=site,
        command=script.command or ("bash", f"{SCRIPT_DIR}/{script.file}", *script.args),
        env=frame.env,
        secrets=script.secrets,
        files=(
            PlannedFile(LAUNCH_FILE, render_template("users_script.sh.j2", frame), 0o700),
            PlannedFile(f"{SCRIPT_DIR}/{script.file}", script.text, 0o700),
            *contained(),
            program("ray_jobs.py"),
            *{file.path: file for file in (*_guard_files(script), *_noise_files(script))}.values(),
            *([program(JOB_ENVIRONMENT)] if frame.joins else []),
        ),
        expectations=_expectations(script),
        treatment=script.given,
        recipe={},
        device_kind=script.device_kind,
        devices=script.devices,
        device_list=script.device_list,
        findings=(*script.findings, *_findings(script)),
    )


def _frame(script: UsersScript, site: Site) -> UsersScriptFrame:
    env = {**site.env, **script.env}
    return UsersScriptFrame(
        title=f"{script.file} as {script.name}, arm {script.arm}, seed {script.seed}",
        device=script.device_kind,
        env=_environment(script, env),
        path_prefix=site.path_prefix,
        setup=site.setup,
        workdir=script.workdir,
        path=on_host(f"{SCRIPT_DIR}/{script.file}"),
        # verl's dictionary, or the arguments of TRL.
        begin=r"/{'.*actor\|\(Config\|Arguments\)($/,$p",
        # Drivers of NPUs tell containers by their namespaces.
        is_apart=script.is_apart and script.device_kind != "npu",
        arm=script.arm,
        seed=script.seed,
        args=script.args,
        joins=gives_ray(site.batch) and script.device_kind == "cpu",
    )


def _environment(script: UsersScript, env: dict[str, str]) -> dict[str, str]:
    """Name the modules that verl loads; without one of them it ends with a tracker that fails."""
    env |= with_module(env, TRACK_GUARD) if _TRACKERS.search(script.text) else {}
    return env | (with_module(env, NOISE_HOOK) if _is_hooked(script) else {})


def _is_hooked(script: UsersScript) -> bool:
    return script.aqn is not None and CPU_PLUGIN not in script.text


def _expectations(script: UsersScript) -> Expectations:
    stated = script.stated or StatedExpectations()
    return Expectations(
        total_steps=script.steps or stated.steps,
        validation_steps=(),
        last_step_validated=False,
        validation_items=stated.items,
        validation_samples=1,
        metric="auto",
        noise=payload_schedule(_Noise(script.aqn, script.seed), script.steps, None, _LINKS),
        reports_probability_gap=False,
        stated=script.stated,
    )


def _guard_files(script: UsersScript) -> Iterator[PlannedFile]:
    if _TRACKERS.search(script.text):
        yield from modules(NOISE)
        yield from modules(TRACK_GUARD, payload_folder("verl"))


def _noise_files(script: UsersScript) -> Iterator[PlannedFile]:
    if script.aqn is None:
        return
    yield from modules(NOISE)
    if _is_hooked(script):
        yield from modules(NOISE_HOOK, payload_folder("verl"))
    settings = payload_settings(_Noise(script.aqn, script.seed), script.aqn, script.steps, None)
    yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", settings)


def _findings(script: UsersScript) -> Iterator[Finding]:
    if lines := lines_with_secrets(script.text):
        shown = ", ".join(map(str, lines[:_MOST_SHOWN])) + (", …" if len(lines) > _MOST_SHOWN else "")
        message = f"the script holds a password or key: line {shown}; the host has it in plain text"
        fix = "take it out and name its variable: --secret NAME; rlx masks it only where it shows or packs something"
        yield Finding("RLX056", Severity.WARNING, message, fix, f"{SCRIPT_DIR}/{script.file}")
    if script.aqn is None:
        return
    for found in _REPLACES.finditer(script.text):
        if CPU_PLUGIN not in found[0]:
            line = script.text.count("\n", 0, found.start()) + 1
            message = f"the script replaces what brings the noise: line {line}: {found[0].strip()}"
            fix = "add to it: VERL_USE_EXTERNAL_MODULES=…,$VERL_USE_EXTERNAL_MODULES, PYTHONPATH=…:$PYTHONPATH"
            yield Finding("RLX035", Severity.ERROR, message, fix, f"{SCRIPT_DIR}/{script.file}")
