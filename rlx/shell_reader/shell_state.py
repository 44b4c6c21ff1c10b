"""Keep the memory of a shell while it goes through a script, and how much it may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from rlx.errors import UsageError
from rlx.shell_reader.shell_words import Marks, ShellCommand, Skipped, Unknown, Variable, Word

MOST_STEPS = 20_000
_MOST_DEPTH = 60
_MOST_CHARACTERS = 4_000_000
# What keeping a value takes besides its characters.
_A_VALUE = 40
_LONGEST = 64 * 1024
_MOST_COMMANDS = 1000
_MOST_SHOWN = 200
# So many commands back one is sought that is done again.
_A_LOOP = 10
_LONGEST_LIST = 400
_OR = " or "

Value = str | list[str]


class Ended(Exception):
    """The script goes no further."""


class Left(Exception):
    """A loop or a function goes no further: `break`, `continue`, `return`."""

    def __init__(self, word: str) -> None:
        self.word = word


@dataclass
class State:
    """`positional` is None where it is not known how the script is called. `may_leave`: perhaps the loop ends here.

    `presumes_no_arguments`: what is decided now is decided as without arguments. `assumed` are the variables from
    outside that the present decision takes for unset. `required` are those without which the script ends, each with
    its line. `document` is what the present command gets as its input, `files` what the script writes from such.
    """

    name: str
    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)
    positional: list[str] | None = None
    workdir: str = ""
    is_certain: bool = True
    marks: Marks = field(default_factory=Marks)
    exports_all: bool = False
    may_leave: bool = False
    is_aside: bool = False
    presumes_no_arguments: bool = False
    loops: int = 0
    assumed: set[str] = field(default_factory=set)
    required: dict[str, int] = field(default_factory=dict)
    document: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    commands: list[ShellCommand] = field(default_factory=list)
    sourced: list[Word] = field(default_factory=list)
    skipped: dict[Skipped, None] = field(default_factory=dict)
    read_unset: dict[str, None] = field(default_factory=dict)
    steps: int = 0
    characters: int = 0
    depth: int = 0

    def step(self, count: int = 1) -> None:
        """Count more that is done. Raises UsageError for a script without end."""
        self.steps += count
        if self.steps > MOST_STEPS:
            raise UsageError(
                f"{self.name}: does not come to its end within {MOST_STEPS:,} steps",
                "name a script without endless loops, or the launch's own line",
            )

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Go one level into the script. Raises UsageError for one that calls itself without end."""
        self.depth += 1
        try:
            if self.depth > _MOST_DEPTH:
                raise UsageError(
                    f"{self.name}: goes more than {_MOST_DEPTH} levels deep, or calls itself",
                    "name a script that does not, or the launch's own line",
                )
            yield
        finally:
            self.depth -= 1

    def made(self, text: str) -> str:
        """Count text that came about. Raises UsageError for too much of it."""
        self.characters += len(text) + _A_VALUE
        if len(text) > _LONGEST or self.characters > _MOST_CHARACTERS:
            raise UsageError(f"{self.name}: makes values of more than {_LONGEST // 1024} KB", "name a smaller script")
        return text

    def unknown(self, source: str) -> str:
        source = " ".join(source.split())
        return self.marks.mark(Unknown(source if len(source) <= _MOST_SHOWN else source[:_MOST_SHOWN] + "…"))

    def outside(self, name: str) -> str:
        return self.marks.mark(Variable(name))

    def skip(self, line: int, text: str) -> None:
        self.skipped[Skipped(line, text)] = None

    def require(self, name: str, line: int) -> None:
        self.required.setdefault(name, line)

    def start(self, command: ShellCommand) -> None:
        """Note a command; in a loop that does the same again and again, once."""
        if command in self.commands[-_A_LOOP:]:
            return
        if len(self.commands) >= _MOST_COMMANDS:
            raise UsageError(f"{self.name}: starts more than {_MOST_COMMANDS} commands", "name a smaller script")
        self.commands.append(command)

    def environment(self) -> dict[str, Word]:
        found = {}
        for name in sorted(self.exported):
            value = self.variables.get(name)
            if isinstance(value, str):
                found[name] = self.marks.word(value)
        return found

    def aside(self, way: Callable[[], object]) -> None:
        """Go a way that is taken only where a program fails: its commands are noted, and what it changes is not.

        It is gone once: a function that calls itself there goes no deeper.
        """
        if self.is_aside:
            return
        kept = self.variables, self.exported, self.workdir, self.positional, self.is_certain, self.may_leave
        self.variables, self.exported = dict(self.variables), set(self.exported)
        self.is_certain, self.is_aside = False, True
        try:
            way()
        except (Ended, Left):
            pass
        finally:
            self.variables, self.exported, self.workdir, self.positional, self.is_certain, self.may_leave = kept
            self.is_aside = False

    def goes_on(self, way: Callable[[], object]) -> bool:
        """Go a way. Returns False if the script ends there, and then what it changed is not."""
        kept = self.variables, self.exported, self.workdir
        self.variables, self.exported = dict(self.variables), set(self.exported)
        try:
            way()
        except Ended:
            self.variables, self.exported, self.workdir = kept
            return False
        return True

    def branch(self, *ways: Callable[[], object]) -> None:
        """Go each of several ways where it is not known which one is taken: what they make different is unknown.

        A way that ends the script has no part in what comes after. Raises Ended if all of them end it.
        """
        before, exported, workdir, certain = self.variables, self.exported, self.workdir, self.is_certain
        outcomes = []
        self.is_certain = False
        try:
            for way in ways:
                self.variables, self.exported, self.workdir = dict(before), set(exported), workdir
                try:
                    way()
                except Left as left:
                    self.may_leave = left.word != "continue"
                except Ended:
                    self.may_leave = True
                    continue
                outcomes.append((self.variables, self.exported, self.workdir))
        finally:
            self.is_certain = certain
        if not outcomes:
            raise Ended
        self.variables, self.exported, self.workdir = outcomes[0]
        for variables, others, folder in outcomes[1:]:
            self.variables = self._either(self.variables, variables)
            self.exported = self.exported | others
            self.workdir = folder if folder == self.workdir else ""

    def _either(self, one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
        found = dict(one)
        for name in one.keys() - other.keys():
            found[name] = self._one_of(self._shown(one[name]), "unset")
        for name, value in other.items():
            if name not in one:
                found[name] = self._one_of("unset", self._shown(value))
            elif one[name] != value:
                found[name] = self._either_value(one[name], value)
        return found

    def _either_value(self, one: Value, other: Value) -> Value:
        """Keep what two lists share, word by word: each KEY=VALUE of a launch is one."""
        if isinstance(one, str) or isinstance(other, str) or max(len(one), len(other)) > _LONGEST_LIST:
            return self._one_of(self._shown(one), self._shown(other))
        keys, others = ([item.partition("=")[0] for item in items] for items in (one, other))
        found: list[str] = []
        for same, begin, end, start, stop in SequenceMatcher(None, keys, others, autojunk=False).get_opcodes():
            if same == "equal":
                found += map(self._either_word, one[begin:end], other[start:stop])
            else:
                found += [self._either_word(item, None) for item in (*one[begin:end], *other[start:stop])]
        return found

    def _either_word(self, one: str, other: str | None) -> str:
        """Return the word that is both; with its key, where only the value is unknown. `other` is None for no word."""
        if one == other:
            return one
        key, equals, value = one.partition("=")
        if not equals:
            return self._one_of(self._shown(one), "nothing" if other is None else self._shown(other))
        rest = "nothing" if other is None else self._shown(other.removeprefix(f"{key}="))
        return f"{key}={self._one_of(self._shown(value), rest)}"

    def _one_of(self, one: str, other: str) -> str:
        return self.unknown(_OR.join(dict.fromkeys((*one.split(_OR), *other.split(_OR)))))

    def _shown(self, value: Value) -> str:
        return self.marks.shown(value if isinstance(value, str) else f"({' '.join(value)})") or '""'
