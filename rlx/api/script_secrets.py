"""Move secrets out of launches that others wrote, and mask them in what is told of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from rlx.secret_text import MASK, is_secret, mask, secrets_in

_LEAST = 8


class Secrets:
    """The secrets of one launch: what `rlx.secret_text` finds, and wherever else one of its values stands."""

    def __init__(self, named: Iterable[tuple[str, object]]) -> None:
        """`named`: the values of its variables and keys."""
        values = {value for name, text in _texts(named) for value in _values(name, text) if _is_telling(value)}
        self._values = sorted(values, key=len, reverse=True)

    def masked(self, text: str) -> str:
        """The text with *** for each."""
        for value in self._values:
            text = text.replace(value, MASK)
        return mask(text)

    def is_in(self, name: str, text: str) -> bool:
        """Tell whether a value of this name is a secret, or has one in it."""
        return is_secret(name, text) or any(value in text for value in self._values)

    def moved_out(self, key: str, value: object, names: list[str]) -> object:
        """The value of a key, with a variable in place of each secret in it, whose name is added to `names`."""
        if isinstance(value, Mapping):
            return {inner: self.moved_out(f"{key}.{inner}", each, names) for inner, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.moved_out(key, each, names) for each in value]
        if not isinstance(value, str) or not self.is_in(key, value):
            return value
        names.append(re.sub(r"\W", "_", key.lstrip("+~").rpartition(".")[2]).upper())
        return f"${{oc.env:{names[-1]}}}"

    def masked_value(self, value: object) -> object:
        """The same for the texts in a value."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            return {key: self.masked_value(inner) for key, inner in value.items()}
        return [self.masked_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _texts(named: Iterable[tuple[str, object]]) -> Iterator[tuple[str, str]]:
    """The texts in the values, each with its name."""
    for name, value in named:
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _texts(value.items())
        elif isinstance(value, (list, tuple)):
            yield from _texts((name, each) for each in value)


def _values(name: str, text: str) -> list[str]:
    return secrets_in(text) or ([text] if is_secret(name, text) else [])


def _is_telling(value: str) -> bool:
    """Tell whether to look for the value elsewhere: not for short words and paths."""
    return len(value) >= _LEAST and not value.startswith(("/", "~", "$")) and not re.search(r"\s", value)
