"""Print the versions of a run's packages as one JSON object, without importing them.

Arguments: the folder that a run starts in, or nothing, and the packages of back-ends, NAME or NAME=FILE where a file of
the package has the version. Files in that folder are found, and never imported.
"""

import json
import sys
from importlib import metadata, util
from importlib.machinery import PathFinder
from pathlib import Path

FIRST = [sys.argv[1]] if sys.argv[1] else []
BACKENDS = dict(argument.partition("=")[::2] for argument in sys.argv[2:])
PACKAGES = (
    *("torch", "torch_npu", "vllm", "vllm_ascend", *BACKENDS, "megatron_core", "ray"),
    *("transformers", "numpy", "triton", "triton_ascend", "pyarrow", "tensordict", "peft"),
)
MODULES = (*BACKENDS, "acl", "torch", "torch_npu", "vllm", "ray")


def version(package):
    found = metadata.distributions(name=package.replace("_", "-"), path=[*FIRST, *sys.path])
    return next((one.version for one in found), None)


def location(module):
    try:
        found = (PathFinder.find_spec(module, FIRST), util.find_spec(module))
    except (ImportError, ValueError):
        return None
    return next((str(Path(spec.origin).parent) for spec in found if spec and spec.origin), None)


def own_version(folder, file):
    """Read it from the file, its only place in a checkout that is not installed."""
    try:
        return Path(folder, file).read_text(encoding="utf-8").strip()
    except OSError:
        return None


packages = {package: version(package) for package in PACKAGES}
places = {module: location(module) for module in MODULES}
for package, file in BACKENDS.items():
    if file and places[package]:
        packages[package] = own_version(places[package], file) or packages[package]
print(
    json.dumps(
        {
            "python": ".".join(map(str, sys.version_info[:3])),
            "executable": sys.executable,
            "packages": {name: found for name, found in packages.items() if found},
            "locations": {name: found for name, found in places.items() if found},
        }
    )
)
