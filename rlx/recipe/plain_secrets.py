"""Find secrets in the text of a recipe, which is stored and sent in plain text and may only name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlx.secret_text import is_secret, names_secret

_STORED = "and what stands here is stored in plain text"
_IN_SECRETS = "remove it and write `secrets: [{}]`, the value then comes from your environment"
_BY_NAME = "remove it, write `secrets: [NAME]`, and let the training read that variable (in Hydra ${oc.env:NAME})"
Path = tuple[str | int, ...]


def plain_secrets(document: Any) -> Iterator[tuple[Path, str]]:
    """Yield the path of each secret in a recipe, or in a part of one, and what is wrong there; never the value."""
    for path, value in _values(document, ()):
        # Items of a list have the name of the list.
        key = next((step for step in reversed(path) if isinstance(step, str)), "")
        if path[:1] == ("env",):
            name = str(path[1])
            if names_secret(name):
                yield path[:2], f"{name} looks like a secret, {_STORED}; {_IN_SECRETS.format(name)}"
            elif is_secret(name, value):
                yield path, f"holds a password or key, {_STORED}; {_IN_SECRETS.format(name)}"
        elif path[:1] != ("secrets",) and is_secret(key, value):
            yield path, f"holds a password or key, {_STORED}; {_BY_NAME}"


def _values(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _values(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            yield from _values(inner, (*path, place))
    elif path and value is not None:
        yield path, value
