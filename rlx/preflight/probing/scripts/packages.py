"""The versions of what a run is made of, without importing any of it: one JSON object."""

import json
import sys
from importlib import metadata, util
from pathlib import Path

PACKAGES = (
    *("torch", "torch_npu", "vllm", "vllm_ascend", "verl", "mindspeed_rl", "mindspeed", "megatron_core", "ray"),
    *("transformers", "numpy", "triton", "triton_ascend", "pyarrow", "tensordict", "peft"),
)
MODULES = ("verl", "mindspeed_rl", "acl", "torch", "torch_npu", "vllm", "ray")


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


def own_version(folder):
    """verl keeps its version in a file; in a checkout that nobody installed it is the only place."""
    try:
        return Path(folder, "version/version").read_text(encoding="utf-8").strip()
    except OSError:
        return None


packages = {package: version(package) for package in PACKAGES}
places = {module: location(module) for module in MODULES}
if places["verl"]:
    packages["verl"] = own_version(places["verl"]) or packages["verl"]
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
