"""The versions of what a run is made of, without importing any of it: one JSON object.

Arguments: the packages of back-ends, NAME or NAME=FILE where the version stands in a file of the package.
"""

import json
import sys
from importlib import metadata, util
from pathlib import Path

BACKENDS = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
PACKAGES = (
    *("torch", "torch_npu", "vllm", "vllm_ascend", *BACKENDS, "megatron_core", "ray"),
    *("transformers", "numpy", "triton", "triton_ascend", "pyarrow", "tensordict", "peft"),
)
MODULES = (*BACKENDS, "acl", "torch", "torch_npu", "vllm", "ray")


def version(package):
    try:
        return metadata.version(package.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return None


def location(module):
    try:
        spec = util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return str(Path(spec.origin).parent) if spec and spec.origin else None


def own_version(folder, file):
    """In a checkout that nobody installed it is the only place."""
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
