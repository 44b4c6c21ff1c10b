"""Find the launch in a script of the users' own: what it starts, what it sets, and in which environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlx.api.script_secrets import Secrets
from rlx.errors import UsageError
from rlx.model import Finding, Severity
from rlx.secret_text import names_secret

if TYPE_CHECKING:
    from rlx.shell_reader import ShellScript, Word
    from rlx.shell_reader.wrappers import Inner

_WITH_A_WORD = ("-X", "-W")
# Programs of Python that start another one, whose words follow theirs.
_DRIVERS = re.compile(r"(?:.*/)?rlx_ray_driver\.py|debugpy")
_NAME_OPTIONS = ("--config-name", "-cn")
_FOLDER_OPTIONS = ("--config-path", "-cp", "--config-dir", "-cd")
_NPU = re.compile(r"\b(?:npu|ascend|hccl|cann)", re.IGNORECASE)
SEARCH_PATH = "hydra.searchpath"


@dataclass(frozen=True, slots=True)
class FoundLaunch:
    """What a script launches. `pairs` are its keys in order, those in `unknown` as they are written.

    `environment` is what is known of it, `open_variables` what is not, as it is written. `secrets` are names of
    variables whose values were in the script.
    """

    program: str
    pairs: tuple[tuple[str, object], ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    open_variables: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = ()
    config_name: str = ""
    workdir: str = ""
    device: str = ""
    findings: tuple[Finding, ...] = ()


def find_launch(text: str, name: str) -> FoundLaunch:
    """The launch of a script called `name`. Raises UsageError for a script without one, and one that cannot be read."""
    from rlx.shell_reader import read_script

    script = read_script(text, name)
    secrets = Secrets(_texts(script).items())
    starts = list(_starts(script, name))
    chosen = _chosen(starts, name, secrets)
    read = _Reading(secrets)
    words = _inner_words(chosen.command.words)
    program, arguments = words[0].text(), words[1:]
    config_name, folder = read.arguments(arguments)
    if folder and config_name:
        read.pairs.append((SEARCH_PATH, [folder if "://" in folder else f"file://{folder}"]))
    environment, opened = read.environment(chosen.command.environment)
    return FoundLaunch(
        program=program,
        pairs=tuple(read.pairs),
        environment=environment,
        open_variables=opened,
        unknown=frozenset(read.unknown),
        secrets=tuple(read.secrets),
        config_name=config_name,
        workdir=chosen.command.workdir,
        device="npu" if _NPU.search(text) else "",
        findings=(
            *(_left(word, chosen.command.line, name) for word in read.left),
            *_findings(script, chosen, starts, text, name, secrets),
        ),
    )


def _texts(script: ShellScript) -> dict[str, str]:
    words = dict(script.variables)
    for command in script.commands:
        words |= command.environment
    return {key: word.text() for key, word in words.items()}


def _starts(script: ShellScript, name: str) -> Iterator[Inner]:
    """Each start of a Python program, in order."""
    from rlx.shell_reader.wrappers import programs

    for inner in programs(script, name):
        if _inner_words(inner.command.words):
            yield inner


def _inner_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The module or file that Python is to run, and its arguments; () for other commands."""
    from rlx.shell_reader.wrappers import PYTHON

    texts = [word.text() for word in words]
    # Before -m a program that only the shell knows, such as $PYTHON, is one.
    is_open = bool(words) and not any(isinstance(part, str) for part in words[0].parts) and texts[1:2] == ["-m"]
    if not is_open and not (texts and PYTHON.fullmatch(texts[0])):
        return ()
    at = _program_at(texts, 1)
    while at < len(texts) and _DRIVERS.fullmatch(texts[at]):
        at = _program_at(texts, at + 1)
    return words[at:] if at < len(texts) and not texts[at].startswith("-") else ()


def _program_at(texts: list[str], at: int) -> int:
    while at < len(texts) and texts[at].startswith("-"):
        if texts[at] == "-m":
            return at + 1
        if texts[at] == "-c":
            return len(texts)
        at += 2 if texts[at] in _WITH_A_WORD else 1
    return at


def _chosen(starts: list[Inner], name: str, secrets: Secrets) -> Inner:
    """The first start of a program that rlx has a recipe for. Raises the refusal of the first program otherwise."""
    from rlx.api.imported_recipe import examples, keys_part

    refusals = []
    for start in starts:
        try:
            keys_part(_inner_words(start.command.words)[0].text())
        except UsageError as problem:
            refusals.append((start, problem))
        else:
            return start
    if not refusals:
        raise UsageError(
            f"{name}: starts no training that rlx knows",
            f"name the script that has the line {examples()}, also behind `uv run`, `srun` or `ray job submit … --`",
        )
    named = [(start, problem) for start, problem in refusals if "is no program" not in problem.message]
    first, refusal = (named or refusals)[0]
    raise UsageError(f"{name}, line {first.command.line}: {secrets.masked(refusal.message)}", refusal.hint)


class _Reading:
    """Takes the words of a launch apart, and moves secrets out of them."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self.pairs: list[tuple[str, object]] = []
        self.unknown: list[str] = []
        self.secrets: list[str] = []
        self.left: list[str] = []

    def arguments(self, words: tuple[Word, ...]) -> tuple[str, str]:
        """Read all words. Returns the name and the folder of the configuration, "" where none is named."""
        name = folder = ""
        rest = list(words)
        while rest:
            word = rest.pop(0)
            option, equals, value = word.text().partition("=")
            if option in (*_NAME_OPTIONS, *_FOLDER_OPTIONS):
                value = value if equals else rest.pop(0).text() if rest else ""
                name, folder = (value, folder) if option in _NAME_OPTIONS else (name, value)
            else:
                self._word(word)
        return name, folder

    def _word(self, word: Word) -> None:
        from rlx.shell_reader import Variable
        from rlx.yaml_reader.hydra import read_word

        pair = read_word(word.text(lambda name: f"${{oc.env:{name}}}"))
        if pair is None:
            # Of a variable that nobody sets nothing is left, as in a shell.
            if any(not isinstance(part, Variable) for part in word.parts):
                self.left.append(self._secrets.masked(word.text()))
            return
        key, value = pair
        if not word.is_known:
            self.unknown.append(key)
            value = self._secrets.masked_value(value)
        else:
            value = self._secrets.moved_out(key, value, self.secrets)
        self.pairs.append((key, self._secrets.masked_value(value)))

    def environment(self, variables: Mapping[str, Word]) -> tuple[dict[str, str], dict[str, str]]:
        """What is known of the environment, and what is not. A value with a secret in it counts as one."""
        known: dict[str, str] = {}
        opened: dict[str, str] = {}
        for name, word in variables.items():
            text = word.text()
            if names_secret(name) or self._secrets.is_in(name, text):
                self.secrets.append(name)
            elif word.is_known and not word.variables:
                known[name] = text
            else:
                opened[name] = self._secrets.masked(text)
        return known, opened


def _left(word: str, line: int, name: str) -> Finding:
    message = f"line {line}: {word} sets no key, and is left out"
    return Finding("RLX007", Severity.WARNING, message, "write the keys that it stands for into overrides", name)


def _findings(
    script: ShellScript, chosen: Inner, starts: list[Inner], text: str, name: str, secrets: Secrets
) -> Iterator[Finding]:
    """What the script does besides, or what was taken for granted."""
    from rlx.planning.script_lines import findings_of

    for word in script.sourced:
        file = secrets.masked(word.text())
        message = f"the script sources {file}, which is not read here"
        fix = "write it into the host's entry: setup: [FILE] (rlx hosts); CANN's own are sourced without"
        yield Finding("RLX005", Severity.NOTE, message, fix, name)
    if chosen.wrappers:
        message = (
            f"line {chosen.command.line}: {', '.join(chosen.wrappers)} before the training is left out of the recipe"
        )
        yield Finding("RLX007", Severity.NOTE, secrets.masked(message), "", name)
    for unread in chosen.unread:
        message = f"{secrets.masked(unread)} is not read here"
        yield Finding("RLX005", Severity.WARNING, message, "write its variables into the recipe's env", name)
    if not chosen.command.is_certain:
        message = f"line {chosen.command.line}: whether the script comes to this launch is known only when it runs"
        yield Finding("RLX007", Severity.NOTE, message, "", name)
    programs = {_inner_words(start.command.words)[0].text() for start in starts if start is not chosen}
    lines = sorted({start.command.line for start in starts if start is not chosen})
    if programs:
        message = f"line {chosen.command.line} is the launch that was read; the script starts more of Python: "
        shown = secrets.masked(", ".join(sorted(programs)[:5]))
        message += f"{shown} (line {', '.join(map(str, lines[:5]))})"
        yield Finding("RLX007", Severity.NOTE, message, "what prepares data or weights is to be done before", name)
    for skipped in script.skipped:
        message = f"line {skipped.line}: {secrets.masked(skipped.text)}"
        yield Finding("RLX007", Severity.WARNING, message, "bash -n tells what is wrong there", name)
    for found in findings_of(text, name):
        message = f"left out of the recipe: {secrets.masked(found.message.removeprefix('the script '))}"
        yield Finding("RLX007", Severity.NOTE, message, "", name)
