"""Configurations of Hydra as plain dicts and lists: a file of keys, and what a training program composed.

Its words are those of YAML 1.1, as Hydra reads them: `yes` is true, `1e-6` is a number, and a date stays a word.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from rlx.yaml_reader.reader import YamlForm, compose
from rlx.yaml_reader.scalars import Scalar
from rlx.yaml_reader.yaml_nodes import YamlError, YamlNode, YamlProblem

MOST_BYTES = 4 << 20
# A number for Hydra, a text for PyYAML: it wants a dot and a sign of the exponent.
_EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+")
_PREFIX = "tag:yaml.org,2002:"


def read_hydra(text: str) -> Any:
    """The document of a text, None without one. Raises YamlError for anything that is not read, or wrong."""
    if len(text) > MOST_BYTES:
        raise YamlError([YamlProblem(1, "", f"is larger than {MOST_BYTES >> 20} MiB, so it is no configuration")])
    root, problems = compose(text, _FORM)
    if problems:
        raise YamlError(problems)
    return None if root is None else _plain(root)


def _plain(node: YamlNode) -> Any:
    if node.id == "mapping":
        return {key.value: _plain(value) for key, value in node.value}
    return [_plain(item) for item in node.value] if node.id == "sequence" else node.value


def read_scalar(word: str) -> Scalar:
    """The value of a plain word; the word itself where it is text."""
    if _EXPONENT.fullmatch(word):
        return float(word)
    loader, node_class = _loader()
    tag = loader.resolve(node_class, word, (True, False))
    if tag.removeprefix(_PREFIX) not in ("null", "bool", "int", "float"):
        return word
    value: Scalar = loader.construct_object(node_class(tag, word))
    return value


@cache
def _loader() -> tuple[Any, Any]:
    import yaml

    return yaml.SafeLoader(""), yaml.ScalarNode


_FORM = YamlForm(what="configuration", file="configuration file", most_nodes=20_000, most_levels=64, scalar=read_scalar)
