"""Do what bash does itself: functions, `cd`, `set`, `source`, `eval` and the like."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Protocol

from rlx.shell_reader.conditions import Conditions
from rlx.shell_reader.exit_status import NO, RAN, YES, Status, of_truth
from rlx.shell_reader.shell_state import Ended, Left, State, Value
from rlx.shell_reader.shell_syntax import Node
from rlx.shell_reader.shell_words import is_known

_NOTHING = ("trap", "ulimit", "shopt", "alias", "hash", "wait", "umask", "jobs", "disown", "popd", "type", "kill")


class Evaluates(Protocol):
    """What goes through the script."""

    conditions: Conditions

    def run(self, node: Node) -> Status: ...

    def text(self, text: str) -> Status: ...

    def assign(self, name: str, value: Value) -> None: ...

    def started(self, words: list[str], given: dict[str, Value], line: int) -> Status: ...


class Builtins:
    def __init__(self, state: State, evaluator: Evaluates) -> None:
        self._state, self._evaluator = state, evaluator
        self._kept: list[dict[str, Value | None]] = []

    def keep(self, name: str) -> None:
        """Remember the value that a variable gets back when the function ends."""
        if self._kept:
            self._kept[-1].setdefault(name, self._state.variables.get(name))

    def call(self, words: list[str]) -> Status:
        """Call a function of the script with its own parameters."""
        state = self._state
        before, state.positional = state.positional, words[1:]
        self._kept.append({})
        try:
            with state.deeper():
                return self._evaluator.run(state.functions[words[0]])
        except Left as left:
            if left.word != "return":
                raise
            return RAN
        finally:
            state.positional = before
            for name, value in self._kept.pop().items():
                if value is None:
                    state.variables.pop(name, None)
                else:
                    state.variables[name] = value

    def run(self, words: list[str], line: int) -> Status:
        name = words[0]
        if name in _NOTHING:
            return RAN
        method: Callable[[list[str], int], Status] = getattr(self, f"_{BUILTINS[name]}")
        return method(words, line)

    def _test(self, words: list[str], line: int) -> Status:
        told = words[1:-1] if words[0] == "[" and words[-1] == "]" else words[1:]
        return of_truth(self._evaluator.conditions.of_words(told))

    def _yes(self, words: list[str], line: int) -> Status:
        return YES

    def _no(self, words: list[str], line: int) -> Status:
        return NO

    def _exit(self, words: list[str], line: int) -> Status:
        raise Ended

    def _leave(self, words: list[str], line: int) -> Status:
        raise Left(words[0])

    def _cd(self, words: list[str], line: int) -> Status:
        folder = self._state.marks.word(words[1] if len(words) > 1 else self._state.outside("HOME"))
        text = folder.text(lambda name: "~" if name == "HOME" else f"${{{name}}}")
        is_plain = folder.is_known and set(folder.variables) <= {"HOME"}
        if is_plain and text.startswith(("/", "~")):
            self._state.workdir = posixpath.normpath(text)
        elif is_plain and self._state.workdir:
            self._state.workdir = posixpath.normpath(posixpath.join(self._state.workdir, text))
        else:
            self._state.workdir = ""
        return RAN

    def _source(self, words: list[str], line: int) -> Status:
        if len(words) > 1:
            self._state.sourced.append(self._state.marks.word(words[1]))
        return RAN

    def _set(self, words: list[str], line: int) -> Status:
        if "--" in words:
            self._state.positional = words[words.index("--") + 1 :]
        elif len(words) > 1 and words[1][0] not in "-+":
            self._state.positional = words[1:]
        for word in words[1:]:
            if word in ("-a", "+a") or (word == "allexport" and words[1] in ("-o", "+o")):
                self._state.exports_all = word == "-a" or words[1] == "-o"
        return RAN

    def _shift(self, words: list[str], line: int) -> Status:
        count = int(words[1]) if len(words) > 1 and words[1].isdecimal() and len(words[1]) < 5 else 1
        if self._state.positional is not None:
            self._state.positional = self._state.positional[count:]
        return RAN

    def _eval(self, words: list[str], line: int) -> Status:
        text = " ".join(words[1:])
        if not is_known(text):
            text = self._state.marks.shown(text)
        with self._state.deeper():
            return self._evaluator.text(text)

    def _read(self, words: list[str], line: int) -> Status:
        for name in words[1:]:
            if name.isidentifier():
                self._evaluator.assign(name, self._state.unknown(f"read {name}"))
        return RAN

    def _exec(self, words: list[str], line: int) -> Status:
        return self._evaluator.started(words[1:], {}, line) if len(words) > 1 else RAN

    def _export(self, words: list[str], line: int) -> Status:
        """Words that are no assignments of their own, such as `export "$PAIR"`."""
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if equals and name.isidentifier():
                self._evaluator.assign(name, value)
            if name.isidentifier():
                self._state.exported.add(name)
        return RAN


BUILTINS = {
    **dict.fromkeys(("[", "test"), "test"),
    **dict.fromkeys(("true", ":"), "yes"),
    "false": "no",
    "getopts": "no",
    "exit": "exit",
    **dict.fromkeys(("break", "continue", "return"), "leave"),
    **dict.fromkeys(("cd", "pushd"), "cd"),
    **dict.fromkeys(("source", "."), "source"),
    "set": "set",
    "shift": "shift",
    "eval": "eval",
    **dict.fromkeys(("read", "mapfile", "readarray"), "read"),
    **dict.fromkeys(("exec", "builtin"), "exec"),
    "export": "export",
    **dict.fromkeys(_NOTHING, ""),
}
"""Name -> the method that does it."""
