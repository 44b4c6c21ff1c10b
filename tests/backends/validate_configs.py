"""Composes configurations by Hydra and holds them against `validate_config`, both of the verl first on sys.path.

Standard input: JSON, name -> [configuration, overrides]. The last line of standard output: JSON, name -> what verl
says against it, "" for nothing.
"""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any


def main() -> None:
    import transformers

    if not hasattr(transformers, "AutoModelForVision2Seq"):
        # verl 0.6 imports the name, which transformers 5 has given up for this one; no check here depends on it.
        transformers.AutoModelForVision2Seq = transformers.AutoModelForImageTextToText  # type: ignore[attr-defined]
    read_each_file_once()
    print(json.dumps({name: complaint(*start) for name, start in json.load(sys.stdin).items()}))


def read_each_file_once() -> None:
    """Keep what OmegaConf read: the same thirty files make up every configuration, and their YAML is half the time."""
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins

    # Hydra executes the files of its plugins itself: a module that was imported before it has another class.
    Plugins.instance()
    files: Any = SourcesRegistry.instance().resolve("file")
    read = cache(files.load_config)
    sources: dict[str, Any] = {}
    files.load_config = lambda source, config_path: deepcopy(read(sources.setdefault(source.path, source), config_path))


def complaint(configuration: str, overrides: list[str]) -> str:
    from verl.utils.config import validate_config

    try:
        config = composed(configuration, overrides)
        reference = config.actor_rollout_ref.actor.use_kl_loss or config.algorithm.use_kl_in_reward
        validate_config(config, use_reference_policy=bool(reference), use_critic=False)
    except Exception as problem:  # noqa: BLE001 - whatever it raises is the answer
        return f"{type(problem).__name__}: {problem}"
    return ""


def composed(configuration: str, overrides: list[str]) -> Any:
    import verl
    from hydra import compose, initialize_config_dir

    assert verl.__file__ is not None
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer/config"), version_base=None):
        return compose(configuration, overrides)


if __name__ == "__main__":
    main()
