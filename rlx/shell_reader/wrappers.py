"""Remove what wraps a program: `nohup`, `env`, `uv run`, `srun`, `ray job submit … --`, `bash -c`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rlx.shell_reader.evaluator import read_script
from rlx.shell_reader.shell_words import ShellCommand, ShellScript, Unknown, Variable, Word

PYTHON = re.compile(r"(?:.*[/}])?python(?:3(?:\.\d+)?)?")
"""A Python by its name, whose folder may be known only to the shell."""


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A program that starts another one. `with_word` are its options that take a word of their own.

    `words` are words of its own before the program, such as the name of a container. `runs_python`: in place of a
    program it may be given a file of Python, or a module behind -m.
    """

    with_word: tuple[str, ...] = ()
    words: int = 0
    runs_python: bool = False


_UV_RUN = (
    *("--with", "-w", "--with-editable", "--with-requirements", "--extra", "--no-extra", "--group", "--no-group"),
    *("--only-group", "--env-file", "--package", "-p", "--python", "--project", "--directory", "--config-file"),
    *("--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--index-strategy"),
    *("--resolution", "--prerelease", "--fork-strategy", "--exclude-newer", "--link-mode", "-C", "--config-setting"),
    *("--no-build-package", "--no-binary-package", "--no-build-isolation-package", "-P", "--upgrade-package"),
    *("--reinstall-package", "--refresh-package", "--cache-dir", "--color", "--python-platform", "--keyring-provider"),
    "--allow-insecure-host",
)
_CONDA_RUN = _Wrapper(("-n", "-p", "--name", "--prefix", "--cwd"))
_IN_CONTAINER = _Wrapper(("-e", "--env", "-w", "--workdir", "-u", "--user", "--env-file"), words=1)
_NEW_CONTAINER = (
    *("-v", "--volume", "--mount", "--name", "--network", "--net", "--ipc", "--shm-size", "--gpus", "--device"),
    *("-p", "--publish", "--ulimit", "--entrypoint", "--cpus", "-m", "--memory", "--runtime", "-h", "--hostname"),
)
_IMAGE_EXEC = _Wrapper(
    ("-B", "--bind", "--env", "--env-file", "-H", "--home", "--pwd", "--overlay", "-W", "--workdir"), words=1
)
_SRUN = (
    *("-A", "--account", "-c", "--cpus-per-task", "-C", "--constraint", "-d", "--dependency", "-D", "--chdir", "-e"),
    *("--error", "-G", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gres", "-i", "--input", "-J", "--job-name"),
    *("-m", "--distribution", "-M", "--clusters", "-n", "--ntasks", "--ntasks-per-node", "-N", "--nodes", "-o"),
    *("--output", "-p", "--partition", "-q", "--qos", "-r", "--relative", "-t", "--time", "-w", "--nodelist", "-W"),
    *("--wait", "-x", "--exclude", "--mem", "--jobid", "--export", "--mpi", "--container-image", "--container-mounts"),
    *("--container-name", "--container-workdir", "--reservation", "--cpu-bind", "--network", "--signal"),
)
_TORCHRUN = (
    *("--nnodes", "--nproc_per_node", "--nproc-per-node", "--node_rank", "--node-rank", "--master_addr"),
    *("--master-addr", "--master_port", "--master-port", "--rdzv_backend", "--rdzv-backend", "--rdzv_endpoint"),
    *("--rdzv-endpoint", "--rdzv_id", "--rdzv-id", "--rdzv_conf", "--rdzv-conf", "--max_restarts", "--max-restarts"),
    *("--monitor_interval", "--monitor-interval", "--start_method", "--start-method", "--role", "--log_dir"),
    *("--log-dir", "-r", "--redirects", "-t", "--tee", "--local_addr", "--local-addr"),
)
_ACCELERATE = (
    *("--config_file", "--num_processes", "--num_machines", "--machine_rank", "--main_process_ip", "--gpu_ids"),
    *("--main_process_port", "--mixed_precision", "--dynamo_backend", "--deepspeed_config_file", "--zero_stage"),
    *("--rdzv_backend", "--num_cpu_threads_per_process", "--gradient_accumulation_steps", "--deepspeed_hostfile"),
)
_NSYS = (
    "-o",
    "--output",
    "-t",
    "--trace",
    "-c",
    "--capture-range",
    "-s",
    "--sample",
    "-d",
    "--duration",
    "-y",
    "--delay",
)
_RAY = (
    *("--address", "--working-dir", "--runtime-env", "--runtime-env-json", "--submission-id", "--entrypoint-num-cpus"),
    *("--entrypoint-num-gpus", "--entrypoint-memory", "--entrypoint-resources", "--job-id", "--metadata-json"),
)
RAY_JOB = "ray job submit"
_TORCH = _Wrapper(_TORCHRUN, runs_python=True)
_LAUNCH = _Wrapper(_ACCELERATE, runs_python=True)
_WRAPPERS: Mapping[str, _Wrapper] = {
    **dict.fromkeys(("nohup", "setsid", "time", "command", "msprof"), _Wrapper()),
    "sudo": _Wrapper(("-u", "-g")),
    "env": _Wrapper(("-u", "-C")),
    "nice": _Wrapper(("-n",)),
    "ionice": _Wrapper(("-c", "-n")),
    "stdbuf": _Wrapper(("-o", "-e", "-i")),
    "numactl": _Wrapper(("-N", "-m", "-C", "-i", "-p")),
    "timeout": _Wrapper(("-k", "-s"), words=1),
    "taskset": _Wrapper(words=1),
    "ssh": _Wrapper(("-p", "-i", "-o", "-l", "-J"), words=1),
    **dict.fromkeys(("docker exec", "podman exec"), _IN_CONTAINER),
    **dict.fromkeys(
        ("docker run", "podman run"), replace(_IN_CONTAINER, with_word=_IN_CONTAINER.with_word + _NEW_CONTAINER)
    ),
    **dict.fromkeys(("apptainer exec", "singularity exec", "apptainer run", "singularity run"), _IMAGE_EXEC),
    **{f"tmux {new}": _Wrapper(("-s", "-n", "-c", "-x", "-y")) for new in ("new", "new-session", "neww", "new-window")},
    **dict.fromkeys(("conda run", "mamba run", "micromamba run"), _CONDA_RUN),
    **dict.fromkeys(("poetry run", "pdm run", "pipenv run"), _Wrapper()),
    "pixi run": _Wrapper(("-e", "--environment", "--manifest-path")),
    "uv run": _Wrapper(_UV_RUN, runs_python=True),
    "srun": _Wrapper(_SRUN),
    "bsub": _Wrapper(("-q", "-n", "-J", "-o", "-e", "-R", "-W", "-P", "-m", "-gpu")),
    "nsys profile": _Wrapper(_NSYS),
    "torchrun": _TORCH,
    "coverage run": _Wrapper(runs_python=True),
    "accelerate launch": _LAUNCH,
    "deepspeed": _Wrapper(
        ("--num_gpus", "--num_nodes", "-H", "--hostfile", "-i", "--include", "--master_port"), runs_python=True
    ),
    RAY_JOB: _Wrapper(_RAY),
}
"""The first words of a command -> what it is."""
_MODULES: Mapping[str, _Wrapper] = {
    "torch.distributed.run": _TORCH,
    "torch.distributed.launch": _TORCH,
    "accelerate.commands.launch": _LAUNCH,
}
"""The same for modules of Python."""
_MODULE = ("-m", "--module")
_SHELLS = ("bash", "sh", "zsh", "dash")
# These read a script from their input; the other words of theirs are a host or options.
_READERS = (*_SHELLS, "ssh", "sbatch", "bsub", "qsub")
_KEEPERS = frozenset(
    ("echo", "printf", "cat", "tee", "grep", "sed", "awk", "which", "type", "pip", "pip3", "git", "logger", "wandb")
)
# A Python that runs a module or a file.
_STARTED = re.compile(
    r"(?:^|[\s;&|(=])(?:[^\s;&|()=]*/)?python(?:3(?:\.\d+)?)?\s+(?:-[a-zA-Z]\w*\s+){0,5}(?:-m\s+\S|[^\s-]\S*\.py\s)"
)
_OPTION = re.compile(r"--?[\w-]+=")
_MOST = 10
_LOOK_AHEAD = 5
_UNKNOWN = "__unknown_"


@dataclass(frozen=True, slots=True)
class Inner:
    """The command inside, what of its wrappers could not be followed, and their names, the outermost first."""

    command: ShellCommand
    unread: tuple[str, ...] = field(default=())
    wrappers: tuple[str, ...] = field(default=())


def programs(script: ShellScript, name: str) -> Iterator[Inner]:
    """Yield the programs that the commands of a script come to start, themselves where nothing wraps them.

    Raises UsageError where the scripts inside them, all together, have no end within the bounds of one.
    """
    unwrapping = _Unwrapping(name, script.steps)
    for command in script.commands:
        yield from unwrapping.inner(Inner(command), _MOST)


class _Unwrapping:
    """Remove wrappers, and count what is done for the scripts inside."""

    def __init__(self, name: str, steps: int) -> None:
        self._name, self._steps = name, steps

    def inner(self, found: Inner, most: int) -> Iterator[Inner]:
        words = [word.text() for word in found.command.words]
        program = words[0].rpartition("/")[2]
        document = found.command.document
        if most == 0:
            return
        if program in _SHELLS and (place := _behind_option(words, "-c")) is not None:
            yield from self._script(found, found.command.words[place], most)
        elif document is not None and (program in _READERS or words[-1].rpartition("/")[2] in (*_SHELLS, "-s", "-")):
            bare = replace(found.command, document=None)
            wrappers = found.wrappers if program in _SHELLS else (*found.wrappers, program)
            yield from self._script(replace(found, command=bare, wrappers=wrappers), document, most)
        elif (taken := _taken_off(found.command.words, words)) is None:
            yield found
        else:
            wrapper, before, inside = taken
            environment, unread = _set_by(found.command, before)
            command = replace(found.command, words=inside, environment=environment)
            inner = Inner(command, (*found.unread, *unread), (*found.wrappers, wrapper))
            # ssh, and a shell's own line, come as one word.
            if len(inside) == 1 and " " in inside[0].text():
                yield from self._script(inner, inside[0], most)
            else:
                yield from self.inner(inner, most - 1)

    def _script(self, found: Inner, word: Word, most: int) -> Iterator[Inner]:
        """Read the script in a word; what is unknown of its text goes through it as a variable of its own."""
        outer = found.command
        unknown = {f"{_UNKNOWN}{i}": part for i, part in enumerate(word.parts) if isinstance(part, Unknown)}
        parts = (f"${{{_UNKNOWN}{i}}}" if isinstance(part, Unknown) else part for i, part in enumerate(word.parts))
        script = read_script(Word(tuple(parts)).text(), self._name, self._steps)
        self._steps = script.steps
        for command in script.commands:
            inside = replace(
                command,
                words=tuple(_as_before(each, unknown) for each in command.words),
                environment={**outer.environment, **command.environment},
                workdir=command.workdir or outer.workdir,
                line=outer.line,
                is_certain=outer.is_certain and command.is_certain,
            )
            yield from self.inner(replace(found, command=inside), most - 1)


def _as_before(word: Word, unknown: Mapping[str, Unknown]) -> Word:
    return Word(tuple(unknown.get(part.name, part) if isinstance(part, Variable) else part for part in word.parts))


def _anywhere(words: tuple[Word, ...], texts: list[str]) -> tuple[str, list[str], tuple[Word, ...]] | None:
    """Part a program that no table knows from the Python that it starts, or from the line that it is given as a word.

    Programs that print their words, or keep them, start nothing.
    """
    name = texts[0].rpartition("/")[2]
    if name in _KEEPERS or PYTHON.fullmatch(texts[0]):
        return None
    for at in range(1, len(texts)):
        if PYTHON.fullmatch(texts[at]) and _STARTED.match(f"{texts[at]} {' '.join(texts[at + 1 : at + _LOOK_AHEAD])} "):
            return name, texts[:at], words[at:]
        if " " in texts[at] and _STARTED.search(texts[at]):
            option = _OPTION.match(texts[at])
            parts = words[at].parts
            if option and isinstance(parts[0], str):
                parts = (parts[0].removeprefix(option[0]), *parts[1:])
            return name, texts[:at], (Word(parts),)
    return None


def _taken_off(words: tuple[Word, ...], texts: list[str]) -> tuple[str, list[str], tuple[Word, ...]] | None:
    """Name the wrapper that a command begins with, and part its words from those inside; None for other commands."""
    # What a variable from outside, or one of two ways of the script, puts before the program.
    opened = next((i for i, word in enumerate(words) if any(isinstance(part, str) for part in word.parts)), 0)
    if opened and _is_program(texts[opened : opened + _LOOK_AHEAD]):
        named = " ".join(text.removesuffix(" or nothing") for text in texts[:opened])
        return named, texts[:opened], words[opened:]
    name, begin, wrapper = _wrapper(texts[:_LOOK_AHEAD])
    if wrapper is None:
        return _anywhere(words, texts)
    at = _after_options(texts, begin, wrapper.with_word) + wrapper.words
    is_module = wrapper.runs_python and any(word in _MODULE for word in texts[begin:at])
    # An option that is not in the table may have taken a word.
    if not is_module and "".join(texts[at - wrapper.words - 1 : at]).startswith("-"):
        places = range(at, len(texts))
        at = next((i for i in places if _is_program(texts[i : i + _LOOK_AHEAD], files=wrapper.runs_python)), at)
    if at >= len(texts):
        return _anywhere(words, texts)
    is_file = wrapper.runs_python and texts[at].endswith(".py")
    python = ("python", "-m") if is_module else ("python",) if is_file else ()
    return name, texts[:at], (*(Word((word,)) for word in python), *words[at:])


def _wrapper(texts: list[str]) -> tuple[str, int, _Wrapper | None]:
    """Return the name of the wrapper, where its options begin, and what it is."""
    program = texts[0].rpartition("/")[2]
    for size in (3, 2, 1):
        name = " ".join((program, *texts[1:size]))
        if name in _WRAPPERS:
            return name, size, _WRAPPERS[name]
    if PYTHON.fullmatch(texts[0]) and "-m" in texts[1:-1]:
        at = texts.index("-m") + 1
        return f"python -m {texts[at]}", at + 1, _MODULES.get(texts[at])
    return "", 0, None


def _is_program(texts: list[str], *, files: bool = False) -> bool:
    """Return whether the words begin with a Python, a shell or a wrapper; or with a file of Python, where those run."""
    name = texts[0].rpartition("/")[2]
    if PYTHON.fullmatch(texts[0]) or name in _SHELLS or (files and name.endswith(".py")):
        return True
    return _wrapper(texts)[2] is not None


def _after_options(words: list[str], at: int, with_word: tuple[str, ...]) -> int:
    """Return the first word that is no option, and no variable as `env` takes them."""
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1
        if not word.startswith("-") and not ("=" in word and word.partition("=")[0].isidentifier()):
            return at
        at += 2 if word in with_word else 1
    return at


def _set_by(command: ShellCommand, words: list[str]) -> tuple[dict[str, Word], tuple[str, ...]]:
    """Return the environment with what the wrapper sets, and the files that it names."""
    found, unread = dict(command.environment), []
    for i, word in enumerate(words):
        option, equals, value = word.partition("=")
        given = value if equals else "".join(words[i + 1 : i + 2])
        if option == "--runtime-env-json":
            found |= {key: Word((text,)) for key, text in _runtime_env(given).items()}
        elif option in ("--runtime-env", "--env-file"):
            unread.append(f"{option} {given}")
        elif option in ("-e", "--env") and "=" in given:
            key, _, text = given.partition("=")
            found[key] = Word((text,))
        elif equals and option.isidentifier():
            found[option] = Word((value,))
    return found, tuple(unread)


def _runtime_env(text: str) -> dict[str, str]:
    try:
        variables = json.loads(text)["env_vars"]
        return {str(key): str(value) for key, value in variables.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _behind_option(words: list[str], option: str) -> int | None:
    """Return the place of the word behind an option, which may be joined with others as in `-lc`."""
    for i, word in enumerate(words[:-1]):
        if word.startswith("-") and not word.startswith("--") and word.endswith(option[1:]):
            return i + 1
    return None
