"""Runs MindSpeed-RL's own configuration code on rendered YAML, in a process of its own.

    python validator.py CHECKOUT < orders > answers      both JSON: [{folder, kind}] -> ["" or what it says]

Hydra composes `mindspeed_rl.yaml` of each folder with the checkout's configs/, as its `main` does. Then the checkout's
own `parse_training_config` of cli/train_KIND.py runs, which builds its configuration classes and calls its
validate_rl_args. Two things differ from a real start: torch_npu and other NPU packages that are not installed here are
empty modules, and the package's `__init__`, which imports Megatron and vLLM, is passed over. Ray is real.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

NPU_PACKAGES = ("torch_npu", "acl", "mstx", "mindspeed", "mindspeed_llm", "megatron", "apex")
PACKAGES = ("mindspeed_rl", "mindspeed_rl.utils", "mindspeed_rl.config_cls")


class Absent(types.ModuleType):
    """A NPU package that is not installed here: imports find it, and nothing of it does anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


def prepare(checkout: Path) -> None:
    for name in NPU_PACKAGES:
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = Absent(name)
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(checkout.joinpath(*name.split(".")))]
        sys.modules[name] = package
    loggers = importlib.import_module("mindspeed_rl.utils.loggers")
    sys.modules["mindspeed_rl.utils"].Loggers = loggers.Loggers  # type: ignore[attr-defined]


def parser_of(checkout: Path, kind: str) -> Any:
    """`parse_training_config` of a trainer, without the imports of the file around it."""
    source = (checkout / f"cli/train_{kind}.py").read_text(encoding="utf-8")
    function = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "parse_training_config"
    )
    names: dict[str, Any] = {"Dict": dict, "Any": Any}
    for module, found in {
        "megatron_config": ("MegatronConfig",),
        "rl_config": ("RLConfig",),
        "generate_config": ("GenerateConfig",),
        "mindstudio_config": ("ProfilerConfig", "MsprobeConfig"),
        "validate_config": ("validate_rl_args",),
    }.items():
        code = importlib.import_module(f"mindspeed_rl.config_cls.{module}")
        names.update({name: getattr(code, name) for name in found})
    exec(compile(ast.Module([function], []), f"train_{kind}.py", "exec"), names)
    return names["parse_training_config"]


def refusal(checkout: Path, folder: str, kind: str) -> str:
    """What MindSpeed-RL says against the configuration; "" if it takes it."""
    from hydra import compose, initialize_config_dir

    search = f"hydra.searchpath=[file://{checkout}/configs]"
    try:
        with initialize_config_dir(folder, version_base=None):
            config = compose("mindspeed_rl", overrides=[search])
        parser_of(checkout, kind)(config)
    except Exception as problem:  # noqa: BLE001 - whatever it raises ends a real run, too
        return f"{type(problem).__name__}: {problem}"
    return ""


def main(checkout: Path) -> None:
    import ray

    # Its loggers write to standard error, and so may Ray; the answers have standard output to themselves.
    prepare(checkout)
    os.environ.update(RLX_RUN_DIR="/run", RLX_ATTEMPT_DIR="/run/attempts/1", RLX_RAY_TMP="/run/ray")
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    answers = [refusal(checkout, order["folder"], order["kind"]) for order in json.load(sys.stdin)]
    ray.shutdown()
    print(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
