"""Compute with whole numbers as bash does."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from rlx.shell_reader.shell_words import is_known

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
_MOST_CHARACTERS = 500


def compute(text: str, variable: Callable[[str], str]) -> int | None:
    """The number; None for what cannot be known, or is more than sums, products and comparisons."""
    if len(text) > _MOST_CHARACTERS or not is_known(text):
        return None
    filled = _NAME.sub(lambda match: f"({variable(match[1]).strip() or '0'})", text)
    if not is_known(filled) or len(filled) > _MOST_CHARACTERS:
        return None
    try:
        return _number(ast.parse(filled.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _number(node: ast.expr) -> int:
    """Raises ValueError for anything else, and for numbers beyond 64 bits."""
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
