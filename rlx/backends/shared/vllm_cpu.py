"""Needs of the CPU build of vLLM, whichever trainer calls it. Seen with vLLM 0.27.1."""

from __future__ import annotations

HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""vLLM 0.27.1 v1/attention/backends/cpu_attn.py, get_supported_head_sizes; another one dies at the first generation."""
KV_CACHE_BYTES = 64 * 1024**2
"""Without a number vLLM takes half of the machine; its own variable counts whole GiB."""
ENVIRONMENT = {
    # The first generation would compile C++ for 42 s.
    "TORCHDYNAMO_DISABLE": "1",
    # Else vLLM wants a NUMA node for each rank of a replica, and binds the ranks of all replicas to the same cores.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
