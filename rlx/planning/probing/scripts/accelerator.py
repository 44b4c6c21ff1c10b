"""Try whether Python reaches the NPUs: one JSON object a step, so that a hang shows how far it came."""

import json
from importlib import util


def step(name, function):
    try:
        answer = function()
    except BaseException as problem:  # noqa: BLE001 - a library that exits is an answer, too
        answer = {"error": f"{type(problem).__name__}: {problem}"[:400]}
    print(json.dumps({name: answer}), flush=True)


def import_acl():
    import acl

    return getattr(acl, "__file__", None) or "built in"


def import_torch():
    import torch

    return torch.__version__


def import_torch_npu():
    import torch_npu

    return torch_npu.__version__


def available():
    import torch

    return bool(torch.npu.is_available())


def count():
    import torch

    return int(torch.npu.device_count())


def device_name():
    import torch

    return str(torch.npu.get_device_name(0))


STEPS = (
    ("acl", import_acl),
    ("torch", import_torch),
    ("torch_npu", import_torch_npu),
    ("available", available),
    ("count", count),
    ("name", device_name),
)
# Without torch_npu there is nothing to learn, and torch alone takes seconds to load.
for name, function in STEPS if util.find_spec("torch_npu") else STEPS[:1]:
    step(name, function)
