"""One YAML file of keys. It may come from another machine, so neither its types nor its size are believed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.errors import UsageError

_MOST_KEYS = 100_000
_DEEPEST = 200
# A number for Hydra, a text for PyYAML: it wants a dot and a sign of the exponent.
_EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+$")
HINT = "a verl configuration folder holds _generated_ppo_trainer.yaml"


def read_key_file(path: Path) -> dict[str, Any]:
    """Key → default of one YAML file, flat or nested."""
    return flat(read_yaml(path), path)


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping. Raises UsageError for anything else, also for values that only look like YAML's."""
    import yaml

    try:
        document = _load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}", HINT) from None
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise UsageError(f"{path} is not YAML: {problem}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no mapping of configuration keys")
    return document


def _load(text: str) -> Any:
    """Parse by libyaml, where PyYAML has it: by itself it takes 0.2 s for the files of one version of verl."""
    import yaml

    if not yaml.__with_libyaml__:
        return yaml.load(text, _loader())
    depth = 0
    # It would follow ten thousand brackets to the end of the stack, and of rlx. Its events need no stack.
    for event in yaml.parse(text, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise RecursionError(f"nested more than {_DEEPEST} deep")
    return yaml.load(text, _loader())


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))
    return Loader


def flat(tree: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """Leaves by dotted key. YAML's aliases make few lines into very many keys, or into endless ones."""
    try:
        leaves = dict(islice(_leaves(tree, ""), _MOST_KEYS + 1))
    except RecursionError:
        raise UsageError(f"{where}: its sections contain themselves") from None
    if len(leaves) > _MOST_KEYS:
        raise UsageError(f"{where}: more than {_MOST_KEYS:,} keys")
    return leaves


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
