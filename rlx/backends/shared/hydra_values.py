"""Values in Hydra's override grammar: what stands to the right of `=` in `key=value`.

Source: hydra-core 1.3, OverrideLexer.g4 and Quoting rules of "Override Grammar" in its documentation. The shell's own
quoting comes later and is not done here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlx.errors import UsageError

# Left bare for the reader's sake; everything else is quoted. Hydra reads bare words of this form as strings unless
# they are one of its constants or numbers, which start differently or are listed below.
_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*", re.ASCII)
_DICT_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_CONSTANTS = frozenset({"null", "true", "false", "inf", "nan"})
_BACKSLASHES_AT_QUOTE = re.compile(r'(\\*)("|\Z)')


def hydra_value(value: object) -> str:
    """`value` as Hydra parses it back, character by character.

    Takes None, bool, int, float, str, and lists and dicts of these. Raises UsageError for what the grammar cannot
    carry: NUL and lone surrogates, dictionary keys that are no plain words, other types.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_dict_key(key)}: {hydra_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(hydra_value(item) for item in value) + "]"
    raise UsageError(f"a value of type {type(value).__name__} cannot be written as a Hydra override")


def refuse_interpolation(value: object, where: str) -> None:
    """Raise UsageError if OmegaConf would replace a part of `value` instead of passing it on.

    Escaping does not help: verl resolves its configuration in place and reads it again, and the second reading
    interpolates what the first one unescaped.
    """
    if isinstance(value, Mapping):
        for item in value.values():
            refuse_interpolation(item, where)
    elif isinstance(value, (list, tuple)):
        for item in value:
            refuse_interpolation(item, where)
    elif isinstance(value, str) and ("${" in value or value == "???"):
        raise UsageError(
            f"{where}: OmegaConf would not take {value!r} literally",
            "write an interpolation that you mean under `overrides`",
        )


def _text(text: str) -> str:
    if "\0" in text or not _is_utf8(text):
        raise UsageError(f"{text!r} cannot be passed on a command line", "remove NUL and invalid characters")
    if _BARE.fullmatch(text) and text.lower() not in _CONSTANTS:
        return text
    # Double quotes, since the shell's come around them. Backslashes count only in front of a quote, where each must
    # be doubled and the quote gets one of its own.
    body = _BACKSLASHES_AT_QUOTE.sub(lambda match: match[1] * 2 + (r"\"" if match[2] else ""), text)
    return f'"{body}"'


def _dict_key(key: object) -> str:
    if not isinstance(key, str) or not _DICT_KEY.fullmatch(key) or key.lower() in _CONSTANTS:
        raise UsageError(f"{key!r} cannot be a dictionary key in a Hydra override", "use letters, digits and _")
    return key


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
