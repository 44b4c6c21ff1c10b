"""Expand the words of a script: variables, `${…}`, arrays, arithmetic, and the few substitutions that run nothing."""

from __future__ import annotations

import ast
import codecs
import fnmatch
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rlx.shell_reader.shell_state import State, Value
from rlx.shell_reader.shell_syntax import Node, line_of, named, text_of
from rlx.shell_reader.shell_words import is_known, without_marks

_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_QUOTED_ESCAPE = re.compile(r'\\(\n|[$`"\\])')
_RANGE = re.compile(r"\{(-?\d{1,6})\.\.(-?\d{1,6})\}")
_MOST_IN_RANGE = 1000
_MOST_DIGITS = 10
_HOME = re.compile(r"([A-Za-z_]\w*=)?~(?=/|$)")
_BLANKS = re.compile(r"[ \t\n]+")
# What each shell, or each call, has of its own.
_OF_THE_SHELL = frozenset(("$", "!", "0", "-", "_", "RANDOM", "SECONDS", "LINENO", "BASH_SOURCE", "HOSTNAME", "UID"))

_SUM = re.compile(r"\$\(\((.*)\)\)", re.DOTALL)
_LEADING = re.compile(r"(?:\\\n|\s)*")
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
# Lists that each environment begins, and scripts go on with.
_GROWING = frozenset(("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD"))
_MOST_PATTERN = 200
_MOST_VALUE = 2000
_NAME = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?")
_SIZE = 1 << 63
_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    ast.Mod: lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
}
_COMPARISONS: Mapping[type, Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LONGEST_EXPRESSION = 500


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text of a word. `splits`: blanks in it part words; `ends`: the word ends behind it, as in "${list[@]}"."""

    text: str
    splits: bool = False
    ends: bool = False


class Expander:
    """Expands nodes by the variables of a state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def fields(self, node: Node) -> list[str]:
        """Return the words that one word of the script becomes."""
        if match := _RANGE.fullmatch(text_of(node)):
            return _numbers(int(match[1]), int(match[2]))
        words: list[str] = []
        current: str | None = None
        for piece in self._pieces(node, False):
            parts = _BLANKS.split(piece.text) if piece.splits else [piece.text]
            if piece.splits and not piece.text.strip():
                parts = [""] if not piece.text else ["", ""]
            for i, part in enumerate(parts):
                if i and current is not None:
                    words.append(current)
                    current = None
                if part or not piece.splits:
                    current = (current or "") + part
            if piece.ends and current is not None:
                words.append(current)
                current = None
        return [self._state.made(word) for word in (*words, *([] if current is None else [current]))]

    def joined(self, node: Node) -> str:
        """Return the one text that the word becomes where nothing is split: in assignments, tests and defaults."""
        pieces = list(self._pieces(node, False))
        return self._state.made(
            "".join(piece.text + (" " if piece.ends else "") for piece in pieces[:-1])
            + (pieces[-1].text if pieces else "")
        )

    def document(self, body: Node) -> str:
        """Return the text of a here-document whose delimiter is not quoted."""
        pieces = self._inside(body, body.start_byte, body.end_byte, True)
        return self._state.made("".join(piece.text for piece in pieces))

    def _pieces(self, node: Node, quoted: bool) -> Iterator[_Piece]:
        with self._state.deeper():
            yield from list(self._of_type(node, quoted))

    def _of_type(self, node: Node, quoted: bool) -> Iterator[_Piece]:
        kind = node.type
        if kind in ("string", "translated_string"):
            # "" is a word, and "${list[@]}" of an empty list is none.
            yield from () if any(named(node)) else [_Piece("")]
            yield from self._inside(node, node.children[0].end_byte, node.end_byte - 1, True)
        elif kind in ("concatenation", "command_name"):
            yield from self._inside(node, node.start_byte, node.end_byte, quoted)
        elif kind == "raw_string":
            yield _Piece(text_of(node)[1:-1])
        elif kind == "ansi_c_string":
            yield _Piece(_ansi(text_of(node)[2:-1]))
        elif kind == "simple_expansion":
            yield from self._variable(_bare(node)[1:], quoted)
        elif kind == "expansion":
            yield from self._expansion(node, quoted)
        elif kind in ("command_substitution", "process_substitution"):
            yield _Piece(self._substituted(node), splits=not quoted)
        elif kind == "arithmetic_expansion":
            number = self.arithmetic(_bare(node)[3:-2])
            yield _Piece(self._state.unknown(text_of(node)) if number is None else str(number))
        else:
            yield _Piece(self._literal(text_of(node), quoted))

    def _inside(self, node: Node, begin: int, end: int, quoted: bool) -> Iterator[_Piece]:
        """Yield what is between two places of a node: its children, and the text between them."""
        text, at = node.text, begin
        for child in node.children:
            if child.start_byte < begin or child.end_byte > end or (quoted and not child.is_named):
                continue
            if child.start_byte > at:
                yield _Piece(self._literal(_slice(text, node, at, child.start_byte), quoted))
            if quoted and child.type in _EXPANSIONS and (blanks := _blanks(child)):
                yield _Piece(self._literal(blanks, quoted))
            yield from self._pieces(child, quoted)
            at = child.end_byte
        if at < end:
            yield _Piece(self._literal(_slice(text, node, at, end), quoted))

    def _literal(self, text: str, quoted: bool) -> str:
        pattern = _QUOTED_ESCAPE if quoted else _ESCAPE
        bare = pattern.sub(lambda match: "" if match[1] == "\n" else match[1], text)
        if not quoted and (match := _HOME.match(bare)):
            return f"{match[1] or ''}{self._state.outside('HOME')}{bare[match.end() :]}"
        return bare

    def _variable(self, name: str, quoted: bool) -> Iterator[_Piece]:
        value = self.value(name)
        if name in ("@", "*") and isinstance(value, list):
            yield from _several(value, quoted, name)
        else:
            yield _Piece(self.plain(name, value), splits=not quoted)

    def value(self, name: str) -> Value | None:
        """Return the value of a variable or parameter; None for one that the script does not set."""
        state = self._state
        if name == "?":
            return "0"
        if name in ("@", "*"):
            return state.positional or []
        positional = [] if state.positional is None and state.presumes_no_arguments else state.positional
        if name == "#" and positional is not None:
            return str(len(positional))
        if name.isdecimal() and name != "0" and len(name) < _MOST_DIGITS and positional is not None:
            return positional[int(name) - 1] if int(name) <= len(positional) else ""
        if name == "PWD":
            return state.workdir or None
        value = state.variables.get(name)
        if value is None and name.isidentifier() and name not in _OF_THE_SHELL:
            state.read_unset[name] = None
        return value

    def plain(self, name: str, value: Value | None) -> str:
        """Return the text of a variable; a mark for one from outside."""
        if isinstance(value, list):
            return value[0] if value else ""
        if value is not None:
            return value
        own = name in _OF_THE_SHELL or name == "#" or name.isdecimal()
        return self._state.unknown(f"${name}") if own else self._state.outside(name)

    def _expansion(self, node: Node, quoted: bool) -> Iterator[_Piece]:
        """`${name}`, `${list[@]}`, `${#name}`, `${!name}`, `${name:-…}` and what else may follow the name."""
        inner = node.children[1:-1]
        prefix = inner[0].type if inner and inner[0].type in ("#", "!") and len(inner) > 1 else ""
        inner = inner[1:] if prefix else inner
        if not inner or not inner[0].is_named:
            yield _Piece(self._state.unknown(text_of(node)))
            return
        name, index = self._subscripted(inner[0])
        value = self._element(name, index)
        if prefix == "!" and len(inner) == 1:
            yield from self._indirect(node, name, value, quoted)
        elif prefix == "#":
            yield _Piece(self._length(node, value, name))
        elif len(inner) == 1:
            if isinstance(value, list):
                yield from _several(value, quoted, index)
            else:
                yield _Piece(self.plain(name, value), splits=not quoted)
        else:
            yield from self._operated(node, inner, name, value, quoted)

    def _indirect(self, node: Node, name: str, value: Value | None, quoted: bool) -> Iterator[_Piece]:
        if isinstance(value, str) and re.fullmatch(r"\w+", value):
            yield _Piece(self.plain(value, self.value(value)), splits=not quoted)
        else:
            yield _Piece(self._state.unknown(text_of(node)))

    def _subscripted(self, node: Node) -> tuple[str, str]:
        """Return the name, and what is in the brackets behind it."""
        if node.type != "subscript":
            return text_of(node), ""
        name, *index = named(node)
        return text_of(name), self.joined(index[0]) if index else "@"

    def _element(self, name: str, index: str) -> Value | None:
        value = self.value(name)
        if not index or value is None:
            return value
        items = value if isinstance(value, list) else [value]
        if index in ("@", "*"):
            return items
        number = self.arithmetic(index)
        if number is None or (isinstance(value, str) and number not in (0, -1)):
            return None
        return items[number] if -len(items) <= number < len(items) else ""

    def _length(self, node: Node, value: Value | None, name: str) -> str:
        if isinstance(value, list):
            return str(len(value))
        text = self.plain(name, value)
        return str(len(text)) if is_known(text) else self._state.unknown(text_of(node))

    def _operated(
        self, node: Node, inner: list[Node], name: str, value: Value | None, quoted: bool
    ) -> Iterator[_Piece]:
        operator = inner[1].type
        if operator == ":" and name in ("@", "*"):
            yield from self._from_parameter(node, inner, quoted)
            return
        rest = (node, inner[1].end_byte, node.end_byte - 1)
        text = value if isinstance(value, str) else " ".join(value) if isinstance(value, list) and value else None
        is_empty = text is None or (operator[0] == ":" and text == "")
        if operator in (":-", "-", ":=", "=", ":?", "?"):
            if not is_empty:
                yield from _several(value, quoted, "@") if isinstance(value, list) else [_Piece(text or "", not quoted)]
            elif operator[-1] == "?" or (value is None and name in _GROWING):
                if operator[-1] == "?":
                    self._state.require(name, line_of(node))
                yield _Piece(self._state.outside(name))
            else:
                yield from self._default(name, operator, *rest, quoted)
        elif operator in (":+", "+"):
            yield from () if is_empty else self._inside(*rest, quoted)
        else:
            changed = None if text is None else self._changed(node, inner, operator, text)
            yield _Piece(self._state.unknown(text_of(node)) if changed is None else changed, splits=not quoted)

    def _from_parameter(self, node: Node, inner: list[Node], quoted: bool) -> Iterator[_Piece]:
        """`${@:2}` are the parameters from the second one on."""
        first = self.arithmetic(self._between(node, inner, 1))
        if first is None or first < 1:
            yield _Piece(self._state.unknown(text_of(node)))
        else:
            yield from _several((self._state.positional or [])[first - 1 :], quoted, "@")

    def _default(self, name: str, operator: str, node: Node, begin: int, end: int, quoted: bool) -> Iterator[_Piece]:
        # The grammar may take a sum here for words of their own.
        sum_ = _SUM.fullmatch(_slice(node.text, node, begin, end))
        number = self.arithmetic(sum_[1]) if sum_ else None
        pieces = [_Piece(str(number))] if number is not None else list(self._inside(node, begin, end, quoted))
        if operator[-1] == "=":
            self._state.variables[name] = "".join(piece.text for piece in pieces)
        yield from (_Piece(piece.text, piece.splits, piece.ends) for piece in pieces)

    def _changed(self, node: Node, inner: list[Node], operator: str, text: str) -> str | None:
        parts = [self._between(node, inner, i) for i in range(1, len(inner)) if not inner[i].is_named]
        first, second = (*parts, "", "")[:2]
        if operator[0] in "#%":
            return _trimmed(text, operator, first)
        if operator[0] == "/":
            return _replaced(text, operator, first, second)
        if operator[0] in "^,":
            return _cased(text, operator)
        start, length = self.arithmetic(first), self.arithmetic(second) if second else None
        return None if operator != ":" or start is None else _cut(text, start, length)

    def _between(self, node: Node, inner: list[Node], at: int) -> str:
        """Return what is between one operator and the next."""
        following = [child for child in inner[at + 1 :] if not child.is_named]
        end = following[0].start_byte if following else node.end_byte - 1
        return "".join(piece.text for piece in self._inside(node, inner[at].end_byte, end, False))

    def arithmetic(self, text: str) -> int | None:
        return _compute(text, lambda name: self.plain(name, self.value(name)))

    def _substituted(self, node: Node) -> str:
        """Return what a command would print that needs nothing but its own words; else as it is written."""
        # The grammar takes a sum in a default, as in ${A:-$((B / 2))}, for a command.
        if (sum_ := _SUM.fullmatch(_bare(node))) and (number := self.arithmetic(sum_[1])) is not None:
            return str(number)
        children = list(named(node)) if node.type == "command_substitution" else []
        if len(children) == 1 and children[0].type == "command":
            words = [word for child in named(children[0]) for word in self.fields(child)]
            if words == ["pwd"]:
                return self.plain("PWD", self.value("PWD"))
            if all(map(is_known, words)) and (printed := _printed(words)) is not None:
                return printed
        return self._state.unknown(text_of(node))


def _printed(words: list[str]) -> str | None:
    command, *arguments = words or [""]
    if command == "echo" and not any(word.startswith("-") for word in arguments):
        return " ".join(arguments)
    if command == "basename" and 1 <= len(arguments) <= 2:
        name = arguments[0].rstrip("/").rpartition("/")[2]
        return name.removesuffix(arguments[1]) if len(arguments) == 2 and name != arguments[1] else name
    if command == "dirname" and len(arguments) == 1:
        return arguments[0].rstrip("/").rpartition("/")[0] or ("/" if arguments[0].startswith("/") else ".")
    if command == "seq" and 1 <= len(arguments) <= 2 and all(re.fullmatch(r"-?\d{1,6}", word) for word in arguments):
        first, last = (1, int(arguments[0])) if len(arguments) == 1 else (int(arguments[0]), int(arguments[1]))
        return "\n".join(map(str, range(first, min(last, first + _MOST_IN_RANGE) + 1)))
    return None


def _blanks(node: Node) -> str:
    """Return the blanks before an expansion in quotes, which the grammar counts to it."""
    match = _LEADING.match(text_of(node))
    return match[0] if match else ""


def _bare(node: Node) -> str:
    return text_of(node)[len(_blanks(node)) :]


def _several(values: list[str], quoted: bool, index: str) -> Iterator[_Piece]:
    if quoted and index == "*":
        yield _Piece(" ".join(values))
        return
    for i, value in enumerate(values):
        yield _Piece(value, splits=not quoted, ends=i < len(values) - 1)


def _numbers(first: int, last: int) -> list[str]:
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)[:_MOST_IN_RANGE]]


def _slice(text: bytes, node: Node, begin: int, end: int) -> str:
    return text[begin - node.start_byte : end - node.start_byte].decode("utf-8", "replace")


def _ansi(text: str) -> str:
    """Return what `$'…'` stands for, without what is no text."""
    try:
        with warnings.catch_warnings(action="ignore"):
            decoded = codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return text
    return without_marks(decoded.encode("utf-8", "ignore").decode())


def _trimmed(value: str, operator: str, pattern: str) -> str | None:
    """Remove a beginning or an end (`#`, `##`, `%` and `%%`); None where that cannot be known."""
    if not is_known(value) or not is_known(pattern) or len(pattern) > _MOST_PATTERN or len(value) > _MOST_VALUE:
        return None
    sizes = range(len(value) + 1)
    ordered = sizes if len(operator) == 1 else reversed(sizes)
    glob = re.compile(fnmatch.translate(pattern))
    for size in ordered:
        part = value[:size] if operator[0] == "#" else value[len(value) - size :]
        if glob.match(part):
            return value[size:] if operator[0] == "#" else value[: len(value) - size]
    return value


def _replaced(value: str, operator: str, pattern: str, by: str) -> str | None:
    """Replace the first match (`/`) or each (`//`); plain text only, None for patterns."""
    if not is_known(value) or not is_known(pattern) or not pattern or re.search(r"[*?\[\]\\]", pattern):
        return None
    return value.replace(pattern, by, -1 if operator == "//" else 1)


def _cased(value: str, operator: str) -> str | None:
    """Change the case (`^`, `^^`, `,` and `,,`)."""
    if not is_known(value):
        return None
    change = str.upper if operator[0] == "^" else str.lower
    return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]


def _cut(value: str, start: int, length: int | None) -> str | None:
    """Take a part (`:start:length`)."""
    if not is_known(value):
        return None
    begin = max(0, len(value) + start) if start < 0 else start
    if length is None:
        return value[begin:]
    return value[begin : len(value) + length] if length < 0 else value[begin : begin + length]


def _compute(text: str, variable: Callable[[str], str]) -> int | None:
    """Return the number; None for what cannot be known, or is more than sums, products and comparisons."""
    if len(text) > _LONGEST_EXPRESSION or not is_known(text):
        return None
    filled = _NAME.sub(lambda match: f"({variable(match[1]).strip() or '0'})", text)
    if not is_known(filled) or len(filled) > _LONGEST_EXPRESSION:
        return None
    try:
        return _number(ast.parse(filled.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _number(node: ast.expr) -> int:
    """Compute a node of sums, products and comparisons.

    Raises ValueError for others, and for numbers beyond 64 bits.
    """
    value = _value(node)
    if not -_SIZE <= value < _SIZE:
        raise ValueError
    return value


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return -_number(node.operand) if isinstance(node.op, ast.USub) else _number(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_number(node.left), _number(node.right))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        return int(_COMPARISONS[type(node.ops[0])](_number(node.left), _number(node.comparators[0])))
    raise ValueError
