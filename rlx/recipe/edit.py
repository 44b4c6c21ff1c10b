"""Change single values in the text of a recipe file, and leave every other character as its author wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rlx import renamed_keys
from rlx.recipe.source import RecipeSource
from rlx.recipe.tree import find, plain
from rlx.recipe.yaml_tree import parse

Keys = tuple[str, ...]
Entry = tuple[yaml.ScalarNode, yaml.Node]


def with_value(text: str, keys: Keys, value: object) -> str:
    """Return the text with `value` (a scalar, or a list or map of them) at the path `keys`, which need not exist."""
    node, rest = _deepest(text, keys)
    if not rest:
        return text[: node.start_mark.index] + inline(value) + text[node.end_mark.index :]
    for key in reversed(rest[1:]):
        value = {key: value}
    return _inserted(text, node, f"{inline(rest[0])}: {inline(value)}")


def value_at(text: str, keys: Keys) -> str | None:
    """Return the text of the scalar at the path; None where there is none."""
    node, rest = _deepest(text, keys)
    return None if rest or not isinstance(node, yaml.ScalarNode) else str(node.value)


def without_key(text: str, keys: Keys) -> str:
    """Return the text without the entry; without its whole map, too, if nothing is left in it. Raises KeyError."""
    node, rest = _deepest(text, keys[:-1])
    index = None if rest else next((i for i, (key, _) in enumerate(_entries(node)) if key.value == keys[-1]), None)
    if index is None:
        raise KeyError(".".join(keys))
    if len(_entries(node)) == 1 and len(keys) > 1:
        return without_key(text, keys[:-1])
    return (_without_flow if node.flow_style else _without_block)(text, _entries(node), index)


def with_keys_renamed(text: str) -> str:
    """Return the text with the current names of keys, in the arms too; other characters stay as they are."""
    for row in renamed_keys.RENAMED:
        node, rest = _deepest(text, ("arms",))
        arms = [] if rest else [key.value for key, _ in _entries(node)]
        for above in ((), *(("arms", arm) for arm in arms)):
            text = _with_key_renamed(text, (*above, *row.old.split(".")), (*above, *row.new.split(".")))
    return text


def _with_key_renamed(text: str, old: Keys, new: Keys) -> str:
    section, rest = _deepest(text, old[:-1])
    key = next((key for key, _ in _entries(section) if not rest and key.value == old[-1]), None)
    if key is None:
        return text
    if old[:-1] == new[:-1]:
        return text[: key.start_mark.index] + inline(new[-1]) + text[key.end_mark.index :]
    found = find(parse(RecipeSource("", Path(), text))[0], old)
    return without_key(with_value(text, new, plain(found) if found else None), old)


def inline(value: object) -> str:
    """Write it as a person would in a recipe: `{tp: 4}`, `megatron`, `"0.7.1"`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{inline(key)}: {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return value if _is_plain(value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


def _is_plain(word: str) -> bool:
    """Return whether YAML reads the bare word as just that text, also inside brackets."""
    try:
        return bool(yaml.safe_load(f"[{word}]") == [word]) and yaml.safe_load(f"{{{word}: 1}}") == {word: 1}
    except yaml.YAMLError:
        return False


def _deepest(text: str, keys: Keys) -> tuple[Any, Keys]:
    """Return the node at the path, or the last map on the way to it with what is missing from there."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, wanted in enumerate(keys):
        below = next((value for key, value in _entries(node) if key.value == wanted), None)
        if below is None or (depth + 1 < len(keys) and not isinstance(below, yaml.MappingNode)):
            return node, keys[depth:]
        node = below
    return node, ()


def _entries(node: Any) -> list[Entry]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _inserted(text: str, node: Any, entry: str) -> str:
    entries = _entries(node)
    if not entries:
        return f"{text[: node.start_mark.index]}{{{entry}}}{text[node.end_mark.index :]}"
    if node.flow_style:
        end = entries[-1][1].end_mark.index
        return f"{text[:end]}, {entry}{text[end:]}"
    indent = " " * entries[0][0].start_mark.column
    # Behind the last entry of which it is sure where it ends: a map in lines of its own may have comments behind it.
    behind = [value for _, value in entries if not _is_block(value)]
    if not behind:
        start = entries[0][0].start_mark.index
        return f"{text[:start]}{entry}\n{indent}{text[start:]}"
    end = _line_end(text, behind[-1].end_mark.index)
    return f"{text[:end].rstrip(chr(10))}\n{indent}{entry}\n{text[end:]}"


def _without_flow(text: str, entries: list[Entry], index: int) -> str:
    start, end = entries[index][0].start_mark.index, entries[index][1].end_mark.index
    if index + 1 < len(entries):
        end = entries[index + 1][0].start_mark.index
    elif index:
        start = entries[index - 1][1].end_mark.index
    return text[:start] + text[end:]


def _without_block(text: str, entries: list[Entry], index: int) -> str:
    key, value = entries[index]
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    return text[:start] + text[_line_end(text, _end(value)) :]


def _end(node: yaml.Node) -> int:
    """Find where the text of a node ends. The mark of a map in lines of its own comes later, behind comments."""
    if not _is_block(node) or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _is_block(value: yaml.Node) -> bool:
    return isinstance(value, yaml.CollectionNode) and not value.flow_style


def _line_end(text: str, index: int) -> int:
    """Find the place behind the end of the line; a block of text ends there already."""
    if text[index - 1 : index] == "\n":
        return index
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1
