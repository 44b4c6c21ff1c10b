"""Environment variables that break a run on NPUs, or take it to another host's doors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, ROLLOUT, VerlFacts
from rlx.preflight.rules.rule_table import Flaw, error, rule, warning

_NZ = "VLLM_ASCEND_ENABLE_NZ"


def _on_npu_with_vllm(facts: VerlFacts) -> bool:
    return facts.recipe.layout.device == "npu" and facts.recipe.rollout.engine == "vllm"


@rule(
    "RLX450",
    title="vLLM on NPUs keeps its weights in FRACTAL_NZ",
    why="sleep and weight sync of the rollout fail on that format",
    fix='`env: {VLLM_ASCEND_ENABLE_NZ: "0"}`',
    source="vllm-ascend worker.py: FRACTAL_NZ mode is enabled; verl's NPU scripts set 0",
)
def fractal_nz(facts: VerlFacts) -> Iterator[Flaw]:
    value = facts.recipe.env.get(_NZ)
    if not _on_npu_with_vllm(facts) or value == "0":
        return
    fix = f'env: {{{_NZ}: "0"}}'
    if value is None:
        yield warning(
            f"env: {_NZ} is not set; unless the host's entry or the image does, the weight sync may fail", fix
        )
    else:
        yield error(f"env.{_NZ} {value}: the weight sync fails on FRACTAL_NZ", fix, f"env.{_NZ}")


@rule(
    "RLX451",
    title="expandable segments together with the rollout's memory pool",
    why="vLLM's pool for sleeping refuses them: Expandable segments are not compatible with memory pool",
    fix="remove `expandable_segments:True`",
    source="vllm-ascend PR#9242",
)
def expandable_segments(facts: VerlFacts) -> Iterator[Flaw]:
    pooled = facts.setting(f"{ROLLOUT}.free_cache_engine") is not False
    for name in ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        value = facts.recipe.env.get(name, "")
        if facts.recipe.rollout.engine == "vllm" and pooled and "expandable_segments:true" in value.lower():
            yield error(f"env.{name} {value}: the rollout's memory pool refuses it", f"remove {name}", f"env.{name}")


@rule(
    "RLX452",
    title="HCCL's two port ranges overlap, or are none",
    why="host and NPU sockets take each other's ports, and a rank fails to bind after minutes",
    fix="two ranges apart, such as 60000-60050 and 61000-61050, or `auto`",
    source="verl Ascend multi-node guide",
)
def hccl_ports(facts: VerlFacts) -> Iterator[Flaw]:
    names = ("HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE")
    ranges = []
    for name in names:
        value = facts.recipe.env.get(name, "auto")
        bounds = re.fullmatch(r"(\d+)-(\d+)", value)
        if bounds and int(bounds[1]) <= int(bounds[2]) < 2**16:
            ranges.append((int(bounds[1]), int(bounds[2])))
        elif value != "auto":
            yield error(f"env.{name} {value}: no range of ports", "write it as 60000-60050, or auto", f"env.{name}")
    if len(ranges) == 2 and max(low for low, _ in ranges) <= min(high for _, high in ranges):
        texts = " and ".join(f"{name} {facts.recipe.env[name]}" for name in names)
        yield error(f"env: {texts} overlap", "61000-61050 for the NPUs, 60000-60050 for the host", f"env.{names[1]}")


@rule(
    "RLX453",
    title="a fixed HCCL port",
    why="a second run on the same host cannot bind it, in another container neither: they share the network",
    fix="`HCCL_HOST_SOCKET_PORT_RANGE: auto` and `HCCL_NPU_SOCKET_PORT_RANGE: auto`",
    source="vllm-ascend#4725, #1955",
)
def hccl_base_port(facts: VerlFacts) -> Iterator[Flaw]:
    name = "HCCL_IF_BASE_PORT"
    if name in facts.recipe.env:
        message = f"env.{name} {facts.recipe.env[name]}: only one run on the host can have it"
        yield warning(message, "HCCL_NPU_SOCKET_PORT_RANGE: auto instead", f"env.{name}")


@rule(
    "RLX454",
    title="a proxy for everything",
    why="Ray and the rollout's servers speak HTTP to this very host, and the proxy swallows it",
    fix="`no_proxy: localhost,127.0.0.1` beside it",
    source="vLLM and Ray clients read http_proxy",
)
def proxies(facts: VerlFacts) -> Iterator[Flaw]:
    env = {name.lower(): value for name, value in facts.recipe.env.items()}
    named = [name for name in ("http_proxy", "https_proxy", "all_proxy") if env.get(name)]
    spared = env.get("no_proxy", "").replace(" ", "").split(",")
    if named and not {"localhost", "127.0.0.1"} <= set(spared) and "*" not in spared:
        message = f"env: {', '.join(named)} without no_proxy for localhost and 127.0.0.1"
        yield warning(message, 'env: {no_proxy: "localhost,127.0.0.1"}')


@rule(
    "RLX455",
    title="VLLM_PLUGINS leaves out ascend",
    why="vllm-ascend is a plugin: without it vLLM sees no NPU",
    fix="add `ascend` to the list, or remove the variable",
    source="vLLM entry points vllm.platform_plugins",
)
def vllm_plugins(facts: VerlFacts) -> Iterator[Flaw]:
    value = facts.recipe.env.get("VLLM_PLUGINS")
    if _on_npu_with_vllm(facts) and value is not None and "ascend" not in value.split(","):
        message = f"env.VLLM_PLUGINS {value}: vLLM would not find the NPUs"
        yield error(message, f"VLLM_PLUGINS: {','.join(filter(None, (value, 'ascend')))}", "env.VLLM_PLUGINS")


@rule(
    "RLX456",
    title="the recipe chooses the visible devices",
    why="rlx leases devices and makes those visible; a run on others takes a neighbour's",
    fix="remove it; `rlx launch --devices` names devices",
    source="templates/verl.sh.j2",
)
def visible_devices(facts: VerlFacts) -> Iterator[Flaw]:
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if name in facts.recipe.env:
            message = f"env.{name} {facts.recipe.env[name]}: the devices of a run are those that it leases"
            yield error(message, f"remove it, and launch with --devices {facts.recipe.env[name]}", f"env.{name}")


@rule(
    "RLX457",
    title="PYTHONPATH is replaced on NPUs",
    why="CANN's own entries are lost: No module named 'acl'",
    fix="remove it and use `backend.workdir`, or the host's `setup`",
    source="torch_npu documentation",
)
def python_path(facts: VerlFacts) -> Iterator[Flaw]:
    value = facts.recipe.env.get("PYTHONPATH")
    if facts.recipe.layout.device == "npu" and value is not None and "ascend" not in value.lower():
        message = f"env.PYTHONPATH {value} replaces the entries that CANN's set_env.sh has made"
        yield warning(message, "remove it; backend.workdir is found without it", "env.PYTHONPATH")


@rule(
    "RLX458",
    title="the task queue of eager mode with graphs",
    why="graph mode of vllm-ascend wants TASK_QUEUE_ENABLE 1; 2 is for eager mode",
    fix='`TASK_QUEUE_ENABLE: "1"`, or `rollout.enforce_eager: true`',
    source="verl Ascend guide: TASK_QUEUE_ENABLE (1 graph / 2 eager)",
)
def task_queue(facts: VerlFacts) -> Iterator[Flaw]:
    eager = facts.setting(f"{ROLLOUT}.enforce_eager") is not False
    if _on_npu_with_vllm(facts) and not eager and facts.recipe.env.get("TASK_QUEUE_ENABLE") == "2":
        message = "env.TASK_QUEUE_ENABLE 2 with rollout.enforce_eager false"
        yield warning(message, 'TASK_QUEUE_ENABLE: "1"', "env.TASK_QUEUE_ENABLE")


@rule(
    "RLX459",
    title="torch.compile on NPUs",
    why="triton and inductor crash the vector cores there",
    fix="leave `use_torch_compile` off",
    source="verl's NPU scripts; vllm-ascend#5043, #2349",
)
def torch_compile(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.use_torch_compile"
    if facts.recipe.layout.device == "npu" and facts.is_true(key):
        yield warning(f"{facts.named(key)}: unstable on NPUs", f"remove {facts.source(key)}", facts.source(key))


@rule(
    "RLX460",
    title="verl is told another kind of device than the recipe has",
    why="verl 0.6 uses what it is told and fails; later ones correct it",
    fix="remove the override; `layout.device` says it",
    source="verl 0.6.1: trainer.device, default cuda; 0.7 and later: auto_set_device",
)
def told_device(facts: VerlFacts) -> Iterator[Flaw]:
    key, device = "trainer.device", facts.recipe.layout.device
    told = facts.setting(key)
    if told is not None and told != device and facts.release < (0, 7):
        yield error(f"{facts.named(key)}, and layout.device is {device}", f"remove {facts.source(key)}")
