"""Write a resolved recipe as YAML that is a valid recipe again, with the origin of each value beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlx.recipe.load import RecipeFile, ResolvedRecipe
from rlx.yaml_reader.reader import plain_value

# Text that needs no quotes, neither for the safe reader nor for other YAML tools.
_BARE = re.compile(r"[A-Za-z/][\w./-]*|~/[\w./-]*")
# What YAML 1.1 tools read as something else.
_WORDS_OF_YAML_1_1 = {"yes", "no", "on", "off", "true", "false", "null"}
_COMMENT_COLUMN_LIMIT = 60


def annotated_yaml(resolved: ResolvedRecipe) -> str:
    """Return the whole document, each leaf followed by `# origin`, the comments in one column."""
    return "".join(f"{line}\n" for line in _annotated(resolved.document, resolved.origins))


def annotated_experiment(file: RecipeFile) -> str:
    """Return the experiment of the file as comments, because one arm of it is none; empty without."""
    if file.experiment is None:
        return ""
    lines = _annotated(file.experiment.document, file.experiment.origins)
    return "".join(f"# {line}\n" for line in ("Of all arms:", *lines))


def plain_yaml(document: Mapping[str, Any]) -> str:
    """Return the document as YAML: a line per key of each section, with deeper values on the same line."""
    lines = (line for key, value in document.items() for line in _section(key, value))
    return "".join(f"{line}\n" for line in lines)


def _section(key: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping) or not value:
        yield f"{_text(key)}: {_flow(value)}"
        return
    yield f"{_text(key)}:"
    for inner, below in value.items():
        yield f"  {_text(inner)}: {_flow(below)}"


def _annotated(document: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    lines = list(_lines(document, origins, ()))
    widths = [len(text) for text, origin in lines if origin and len(text) <= _COMMENT_COLUMN_LIMIT]
    column = max(widths, default=0) + 2
    return [f"{text:<{column - 2}}  # {origin}" if origin else text for text, origin in lines]


def _lines(value: Mapping[str, Any], origins: Mapping[str, str], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key, child in value.items():
        below = (*path, key)
        label = f"{'  ' * len(path)}{_text(key)}:"
        if isinstance(child, Mapping) and child:
            yield label, ""
            yield from _lines(child, origins, below)
        else:
            yield f"{label} {_flow(child)}", origins[".".join(below)]


def _flow(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        # 5e-07 is text for YAML 1.1 tools, which require the point.
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_flow(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value)


def _text(text: str) -> str:
    if _BARE.fullmatch(text) and text.lower() not in _WORDS_OF_YAML_1_1 and plain_value(text) == text:
        return text
    # A JSON string is a YAML string in double quotes; only U+0085 and similar would be folded, so all is escaped.
    return json.dumps(text) if text.isascii() else _escaped(text)


def _escaped(text: str) -> str:
    """Escape all of it: JSON escapes beyond U+FFFF come in pairs of surrogates, which YAML does not put together."""
    parts = (
        json.dumps(character)[1:-1] if ord(character) <= 0xFFFF else f"\\U{ord(character):08X}" for character in text
    )
    return '"' + "".join(parts) + '"'
