"""Read `at_once: {queue: NAME}` of a host's entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read(reader: Any, node: Any, key: str) -> Mapping[str, Any] | None:
    if node.id != "mapping":
        reader.complain(node, key, "must be a map such as {queue: main}")
        return None
    values = reader.section(node, key, ("queue",), {})
    return {name: reader.text(value, f"{key}.{name}") for name, value in values.items()}


def device(settings: Mapping[str, Any]) -> tuple[str, int] | None:
    return ("cpu", 1)


def words(settings: Mapping[str, Any]) -> str:
    return f"the queue {settings['queue']}"
