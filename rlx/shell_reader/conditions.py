"""Decide the tests of a script: yes, no, or None where only the shell will know.

A variable that the script does not set is taken to be unset, as in a shell with an empty environment.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from rlx.shell_reader.shell_syntax import Node, named, text_of
from rlx.shell_reader.shell_words import is_known

if TYPE_CHECKING:
    from rlx.shell_reader.expansion import Expander
    from rlx.shell_reader.shell_state import State

# What every environment has.
_ALWAYS = frozenset(("HOME", "USER", "PATH", "PWD", "SHELL", "LOGNAME", "HOSTNAME", "LANG"))
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


class Conditions:
    def __init__(self, state: State, expander: Expander) -> None:
        self._state, self._expander = state, expander

    def of_node(self, node: Node) -> bool | None:
        """Decide what is in `[ … ]` or `[[ … ]]`."""
        with self._state.deeper():
            if node.type == "test_command" and node.children[0].type == "[":
                return self.of_words(list(self._flat(node)))
            if node.type in ("test_command", "parenthesized_expression"):
                inner = list(named(node))
                return self.of_node(inner[0]) if len(inner) == 1 else None
            if node.type == "unary_expression":
                return self._unary(node)
            if node.type == "binary_expression":
                return self._binary(node)
            return self._not_empty(self._value(self._expander.joined(node)))

    def of_words(self, words: list[str]) -> bool | None:
        """Decide the words of the commands `test` and `[`, which have no brackets but `-o` and `-a`."""
        with self._state.deeper():
            return self._of_words(words)

    def _of_words(self, words: list[str]) -> bool | None:
        for word, decide in (("-o", _any), ("-a", _all)):
            if word in words[1:-1]:
                at = words.index(word, 1)
                return decide(self.of_words(words[:at]), self.of_words(words[at + 1 :]))
        if words[:1] == ["!"]:
            return _not(self.of_words(words[1:]))
        if len(words) <= 1:
            return self._not_empty(self._value("".join(words)))
        if len(words) == 2:
            return self._told(words[0], words[1])
        return self._compared(words[0], words[1], words[2]) if len(words) == 3 else None

    def _flat(self, node: Node) -> Iterator[str]:
        """Yield the words between the brackets, which the grammar binds as in `[[`, and `[` does not."""
        for child in node.children:
            if child.type in ("unary_expression", "binary_expression"):
                with self._state.deeper():
                    yield from self._flat(child)
            elif child.is_named:
                yield self._expander.joined(child)
            elif child.type not in ("[", "]"):
                yield text_of(child)

    def _unary(self, node: Node) -> bool | None:
        operator, *operand = node.children
        if len(operand) != 1:
            return None
        if text_of(operator) == "!":
            return _not(self.of_node(operand[0]))
        return self._told(text_of(operator), self._expander.joined(operand[0]))

    def _binary(self, node: Node) -> bool | None:
        if len(node.children) != 3:
            return None
        left, operator, right = node.children
        word = text_of(operator)
        if word in ("&&", "-a"):
            return _all(self.of_node(left), self.of_node(right))
        if word in ("||", "-o"):
            return _any(self.of_node(left), self.of_node(right))
        return self._compared(self._expander.joined(left), word, self._expander.joined(right))

    def _told(self, operator: str, operand: str) -> bool | None:
        if operator == "-v":
            if is_known(operand) and operand not in self._state.variables:
                self._state.assumed.add(operand)
            return operand in self._state.variables if is_known(operand) else None
        value = self._value(operand)
        if operator == "-n":
            return self._not_empty(value)
        return _not(self._not_empty(value)) if operator == "-z" else None

    def _compared(self, left: str, operator: str, right: str) -> bool | None:
        one, other = self._value(left), self._value(right)
        if one is None or other is None:
            return None
        if operator in ("=", "==", "!="):
            is_same = one == other or fnmatch.fnmatchcase(one, other)
            return is_same if operator != "!=" else not is_same
        if operator in _NUMBERS:
            numbers = self._expander.arithmetic(one), self._expander.arithmetic(other)
            return None if None in numbers else _NUMBERS[operator](*numbers)  # type: ignore[arg-type]
        return None

    def _value(self, text: str) -> str | None:
        name = self._state.marks.only_variable(text)
        if name and name not in _ALWAYS:
            self._state.assumed.add(name)
            return ""
        return text if is_known(text) else None

    @staticmethod
    def _not_empty(value: str | None) -> bool | None:
        return None if value is None else value != ""


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _any(one: bool | None, other: bool | None) -> bool | None:
    return _not(_all(_not(one), _not(other)))
