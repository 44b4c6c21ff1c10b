"""Take off what stands around a program: `nohup`, `env`, `ray job submit … --`, `docker exec`, `bash -c`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rlx.shell_reader.evaluator import read_script
from rlx.shell_reader.shell_script import ShellCommand
from rlx.shell_reader.shell_words import Unknown, Variable, Word

# Program -> its options that take a word of their own. What follows them is the program that it starts.
_PLAIN: Mapping[str, tuple[str, ...]] = {
    "nohup": (),
    "setsid": (),
    "time": (),
    "command": (),
    "sudo": ("-u", "-g"),
    "env": ("-u", "-C"),
    "nice": ("-n",),
    "ionice": ("-c", "-n"),
    "stdbuf": ("-o", "-e", "-i"),
    "numactl": ("-N", "-m", "-C", "-i", "-p"),
}
# The same, behind one word more: the time, the processors, the container.
_WITH_A_WORD: Mapping[str, tuple[str, ...]] = {"timeout": ("-k", "-s"), "taskset": ()}
_OF_EXEC = ("-e", "--env", "-w", "--workdir", "-u", "--user", "--env-file")
_OF_RAY = (
    "--address",
    "--working-dir",
    "--runtime-env",
    "--runtime-env-json",
    "--submission-id",
    "--entrypoint-num-cpus",
)
_SHELLS = ("bash", "sh", "zsh", "dash")
_MOST = 10
_UNKNOWN = "__unknown_"


@dataclass(frozen=True, slots=True)
class Inner:
    """The command inside, and what of the wrappers could not be followed."""

    command: ShellCommand
    unread: tuple[str, ...] = field(default=())


def inner_commands(command: ShellCommand, name: str) -> Iterator[Inner]:
    """The programs that a command comes to start, itself where nothing stands around it."""
    yield from _inner(Inner(command), name, _MOST)


def _inner(found: Inner, name: str, most: int) -> Iterator[Inner]:
    words = [word.text() for word in found.command.words]
    program = words[0].rpartition("/")[2]
    if most == 0:
        return
    if program in _SHELLS and (told := _told(words, "-c")) is not None:
        yield from _script(found, found.command.words[told], name, most)
    elif (start := _start(words)) is None:
        yield found
    elif start < len(words):
        environment, unread = _set_by(found.command, words[:start])
        inside = replace(found.command, words=found.command.words[start:], environment=environment)
        # ssh, and a shell's own line, come as one word.
        if len(words) - start == 1 and " " in words[start]:
            yield from _script(Inner(inside, unread), inside.words[0], name, most)
        else:
            yield from _inner(Inner(inside, (*found.unread, *unread)), name, most - 1)


def _script(found: Inner, word: Word, name: str, most: int) -> Iterator[Inner]:
    """What is unknown of the text goes through it as a variable of its own."""
    outer = found.command
    unknown = {f"{_UNKNOWN}{i}": part for i, part in enumerate(word.parts) if isinstance(part, Unknown)}
    parts = (f"${{{_UNKNOWN}{i}}}" if isinstance(part, Unknown) else part for i, part in enumerate(word.parts))
    for command in read_script(Word(tuple(parts)).text(), name).commands:
        inside = replace(
            command,
            words=tuple(_as_before(each, unknown) for each in command.words),
            environment={**outer.environment, **command.environment},
            workdir=command.workdir or outer.workdir,
            line=outer.line,
            is_certain=outer.is_certain and command.is_certain,
        )
        yield from _inner(Inner(inside, found.unread), name, most - 1)


def _as_before(word: Word, unknown: Mapping[str, Unknown]) -> Word:
    return Word(tuple(unknown.get(part.name, part) if isinstance(part, Variable) else part for part in word.parts))


def _start(words: list[str]) -> int | None:
    """Where the program inside begins; None for a command without wrapper."""
    program = words[0].rpartition("/")[2]
    if words[:3] == ["ray", "job", "submit"]:
        return words.index("--") + 1 if "--" in words else len(words)
    if program in _PLAIN:
        return _after_options(words, 1, _PLAIN[program])
    if program in _WITH_A_WORD:
        return _after_options(words, 1, _WITH_A_WORD[program]) + 1
    if program in ("docker", "podman") and words[1:2] == ["exec"]:
        return _after_options(words, 2, _OF_EXEC) + 1
    if program == "ssh":
        return _after_options(words, 1, ("-p", "-i", "-o", "-l", "-J")) + 1
    if program == "tmux" and any(word.startswith("new") for word in words[1:2]):
        return _after_options(words, 2, ("-s", "-n", "-c", "-x", "-y"))
    if program == "conda" and words[1:2] == ["run"]:
        return _after_options(words, 2, ("-n", "-p", "--name", "--prefix"))
    return None


def _after_options(words: list[str], at: int, with_word: tuple[str, ...]) -> int:
    """The first word that is no option, and no variable as `env` takes them."""
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1
        if not word.startswith("-") and not ("=" in word and word.partition("=")[0].isidentifier()):
            return at
        at += 2 if word in with_word else 1
    return at


def _set_by(command: ShellCommand, words: list[str]) -> tuple[dict[str, Word], tuple[str, ...]]:
    """The environment with what the wrapper sets, and the files that it names."""
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


def _told(words: list[str], option: str) -> int | None:
    """The place of the word behind an option, which may stand with others as in `-lc`."""
    for i, word in enumerate(words[:-1]):
        if word.startswith("-") and not word.startswith("--") and word.endswith(option[1:]):
            return i + 1
    return None
