"""Overrides in Hydra's grammar, and paths that exist only where and when the run starts.

Source: hydra-core 1.3, OverrideLexer.g4 and Quoting rules of "Override Grammar" in its documentation. The shell's own
quoting comes later and is not done here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# "" sets a key that exists, "+" adds one, "++" does either, "~" removes one.
Prefix = Literal["", "+", "++", "~"]
_PREFIXED_KEY = re.compile(r"(\+{1,2}|~|)(.*)", re.DOTALL)
# Written bare, which reads better; everything else is quoted. Hydra reads bare words of this form as strings unless
# they are one of its constants or numbers, which start differently or are listed below.
_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*", re.ASCII)
_DICT_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_CONSTANTS = frozenset({"null", "true", "false", "inf", "nan"})
_BACKSLASHES_AT_QUOTE = re.compile(r'(\\*)("|\Z)')


@dataclass(frozen=True, slots=True)
class Override:
    """`prefix``key`=`value`. `source` is the dotted recipe key it follows from.

    The text of a verbatim value may hold OmegaConf interpolations; in any other value they are refused.
    """

    key: str
    value: object
    source: str
    prefix: Prefix = ""
    verbatim: bool = False

    @classmethod
    def read(cls, key: str, value: object) -> Override:
        """Read an entry of the recipe's `overrides`."""
        match = _PREFIXED_KEY.fullmatch(key)
        assert match is not None  # the pattern takes any text
        return cls(match[2], value, f"overrides.{key}", match[1], verbatim=True)  # type: ignore[arg-type]

    def leaves(self) -> Iterator[tuple[str, object]]:
        """Each key that it sets, with the value: a map sets the keys below, and also counts as a value itself."""
        return _leaves(self.key, self.value)

    def argument(self) -> str:
        """Write the word for Hydra's command line, not quoted for a shell. Raises UsageError if that is impossible."""
        if not self.verbatim:
            refuse_interpolation(self.value, self.source)
        if self.prefix == "~" and self.value is None:
            return f"~{self.key}"
        return f"{self.prefix}{self.key}={hydra_value(self.value)}"


def _leaves(key: str, value: object) -> Iterator[tuple[str, object]]:
    yield key, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)


def host_path(path: str, source: str) -> str:
    """Write a path on the host as OmegaConf text; `~/` becomes that host's home directory."""
    refuse_interpolation(path, source)
    return f"${{oc.env:HOME}}/{path[2:]}" if path.startswith("~/") else path


def path_override(key: str, path: str, source: str) -> Override:
    return Override(key, host_path(path, source), source, verbatim=True)


def run_path(variable: str, name: str) -> str:
    """Write a path below a directory that exists only at start (`RLX_RUN_DIR`, `RLX_ATTEMPT_DIR`)."""
    return f"${{oc.env:{variable}}}/{name}"


def path_on_all_nodes(recipe: Recipe, name: str) -> str:
    """Write a path below the run directory that is valid on every node, each of which has a directory of its own.

    supervise.sh makes a link to it that has the same name on all of them.
    """
    return run_path("RLX_RUN_DIR", name) if recipe.layout.nodes == 1 else run_path("RLX_RAY_TMP", f"run/{name}")


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
