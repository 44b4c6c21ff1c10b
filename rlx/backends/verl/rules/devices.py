"""Check what the kind of devices needs: on a CPU a new verl and its engines, on NPUs their settings and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.backends.shared.vllm_cpu import HEAD_SIZES
from rlx.backends.verl.overrides import CPU_NEEDS_KEY, FLASH_ATTENTION, SETS_FLASH_ATTENTION, SGLANG_ATTENTION
from rlx.backends.verl.rules.facts import ACTOR, ROLLOUT, VerlFacts
from rlx.planning.rules.number_text import one_of
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

_NZ = "VLLM_ASCEND_ENABLE_NZ"
_PORTS = ("HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE")
_ONE_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


@rule("RLX401")
def old_verl(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.layout.device == "cpu" and CPU_NEEDS_KEY not in facts.settings.defaults:
        message = f"layout.device cpu: verl {facts.settings.version} cannot be steered from outside"
        yield error(message, "use verl 0.9", "layout.device")


@rule("RLX405")
def engine_without_cpu(facts: VerlFacts) -> Iterator[RuleFinding]:
    engine = facts.recipe.rollout.engine
    if facts.recipe.layout.device == "cpu" and engine not in ("cpu", "vllm"):
        yield error(f"rollout.engine {engine} with layout.device cpu", "rollout.engine cpu or vllm", "rollout.engine")


@rule("RLX406")
def head_size(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, recipe = facts.architecture, facts.recipe
    if recipe.layout.device != "cpu" or recipe.rollout.engine != "vllm" or shape is None:
        return
    if shape.head_dim not in HEAD_SIZES:
        message = f"{shape.name} has heads of {shape.head_dim}, and vLLM on a CPU knows {one_of(HEAD_SIZES)}"
        yield error(message, "another model, or rollout.engine cpu", "rollout.engine")


@rule("RLX461")
def flash_attention(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, npu = f"{ACTOR}.megatron.{FLASH_ATTENTION}", facts.recipe.layout.device == "npu"
    given = facts.setting(key)
    is_off = given is not True if facts.release < SETS_FLASH_ATTENTION else given is False
    if npu and facts.is_megatron and is_off:
        yield error(f"{facts.named(key)}: attention would take no packed sequences", f"{key}: true", facts.source(key))


@rule("RLX462")
def sglang_attention(facts: VerlFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    if recipe.layout.device != "npu" or recipe.rollout.engine != "sglang":
        return
    if facts.setting(SGLANG_ATTENTION) != "ascend":
        message = f"{facts.named(SGLANG_ATTENTION)}: SGLang on NPUs needs ascend"
        yield error(message, f"{SGLANG_ATTENTION}: ascend", facts.source(SGLANG_ATTENTION))


@rule("RLX450")
def fractal_nz(facts: VerlFacts) -> Iterator[RuleFinding]:
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


@rule("RLX451")
def expandable_segments(facts: VerlFacts) -> Iterator[RuleFinding]:
    pooled = facts.setting(f"{ROLLOUT}.free_cache_engine") is not False
    for name in ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        value = facts.recipe.env.get(name, "")
        if facts.recipe.rollout.engine == "vllm" and pooled and "expandable_segments:true" in value.lower():
            yield error(f"env.{name} {value}: the rollout's memory pool refuses it", f"remove {name}", f"env.{name}")


@rule("RLX452")
def hccl_ports(facts: VerlFacts) -> Iterator[RuleFinding]:
    values = {name: facts.recipe.env.get(name, "auto") for name in _PORTS}
    ranges = {name: _port_ranges(value) for name, value in values.items() if value != "auto"}
    for name, found in ranges.items():
        if not found:
            yield error(
                f"env.{name} {values[name]}: no range of ports", "write it as 60000-60050, or auto", f"env.{name}"
            )
    host, npu = (ranges.get(name) or [] for name in _PORTS)
    if any(max(one[0], two[0]) <= min(one[1], two[1]) for one in host for two in npu):
        texts = " and ".join(f"{name} {values[name]}" for name in _PORTS)
        yield error(f"env: {texts} overlap", "61000-61050 for the NPUs, 60000-60050 for the host", f"env.{_PORTS[1]}")


@rule("RLX453")
def hccl_base_port(facts: VerlFacts) -> Iterator[RuleFinding]:
    env = facts.recipe.env
    if "HCCL_IF_BASE_PORT" in env:
        message = f"env.HCCL_IF_BASE_PORT {env['HCCL_IF_BASE_PORT']}: only one run on the host can have it"
        yield warning(message, "remove it", "env.HCCL_IF_BASE_PORT")
    for name in _PORTS:
        ranges = _port_ranges(env.get(name, ""))
        if ranges and sum(high - low + 1 for low, high in ranges) == 1:
            message = f"env.{name} {env[name]}: one port, for the processes of actor and rollout"
            yield warning(message, f"remove it, or {name}: auto", f"env.{name}")


@rule("RLX454")
def proxies(facts: VerlFacts) -> Iterator[RuleFinding]:
    env = {name.lower(): value for name, value in facts.recipe.env.items()}
    named = [name for name in ("http_proxy", "https_proxy", "all_proxy") if env.get(name)]
    spared = env.get("no_proxy", "").replace(" ", "").split(",")
    if named and not {"localhost", "127.0.0.1"} <= set(spared) and "*" not in spared:
        message = f"env: {', '.join(named)} without no_proxy for localhost and 127.0.0.1"
        yield warning(message, 'env: {no_proxy: "localhost,127.0.0.1"}')


@rule("RLX455")
def vllm_plugins(facts: VerlFacts) -> Iterator[RuleFinding]:
    value = facts.recipe.env.get("VLLM_PLUGINS")
    if _on_npu_with_vllm(facts) and value is not None and "ascend" not in value.split(","):
        message = f"env.VLLM_PLUGINS {value}: vLLM would not find the NPUs"
        yield error(message, f"VLLM_PLUGINS: {','.join(filter(None, (value, 'ascend')))}", "env.VLLM_PLUGINS")


@rule("RLX456")
def visible_devices(facts: VerlFacts) -> Iterator[RuleFinding]:
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if name in facts.recipe.env:
            message = f"env.{name} {facts.recipe.env[name]}: the devices of a run are those that it leases"
            yield error(message, f"remove it, and launch with --devices {facts.recipe.env[name]}", f"env.{name}")


@rule("RLX457")
def python_path(facts: VerlFacts) -> Iterator[RuleFinding]:
    value = facts.recipe.env.get("PYTHONPATH")
    if facts.recipe.layout.device == "npu" and value is not None and "ascend" not in value.lower():
        message = f"env.PYTHONPATH {value} replaces the entries that CANN's set_env.sh has made"
        yield warning(message, "remove it; backend.workdir is found without it", "env.PYTHONPATH")


@rule("RLX458")
def task_queue(facts: VerlFacts) -> Iterator[RuleFinding]:
    eager = facts.setting(f"{ROLLOUT}.enforce_eager") is not False
    if _on_npu_with_vllm(facts) and not eager and facts.recipe.env.get("TASK_QUEUE_ENABLE") == "2":
        message = "env.TASK_QUEUE_ENABLE 2 with rollout.enforce_eager false"
        yield warning(message, 'TASK_QUEUE_ENABLE: "1"', "env.TASK_QUEUE_ENABLE")


@rule("RLX459")
def torch_compile(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ACTOR}.use_torch_compile"
    if facts.recipe.layout.device == "npu" and facts.is_true(key):
        yield warning(f"{facts.named(key)}: unstable on NPUs", f"remove {facts.source(key)}", facts.source(key))


@rule("RLX460")
def told_device(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, device = "trainer.device", facts.recipe.layout.device
    written = facts.setting(key)
    if written is not None and written != device and facts.release < (0, 7):
        yield error(f"{facts.named(key)}, and layout.device is {device}", f"remove {facts.source(key)}")


@rule("RLX408")
def seeds_of_requests(facts: VerlFacts) -> Iterator[RuleFinding]:
    rollout, settings = facts.recipe.rollout, facts.settings
    if not rollout.deterministic or rollout.engine == "cpu":
        return
    if rollout.engine != "vllm" or CPU_NEEDS_KEY not in settings.defaults or not facts.starts_main_ppo:
        message = f"rollout.deterministic with {rollout.engine} and verl {settings.version}: no request gets a seed"
        yield error(message, "verl 0.9 with vllm, or deterministic: false", "rollout.deterministic")


def _on_npu_with_vllm(facts: VerlFacts) -> bool:
    return facts.recipe.layout.device == "npu" and facts.recipe.rollout.engine == "vllm"


def _port_ranges(text: str) -> list[tuple[int, int]]:
    """Read `60000,60050-60100`; nothing at all where a part is no port or no range."""
    matches = [_ONE_RANGE.fullmatch(part) for part in text.split(",")]
    ranges = [(int(one[1]), int(one[2] or one[1])) for one in matches if one]
    return ranges if len(ranges) == len(matches) and all(0 < low <= high < 2**16 for low, high in ranges) else []
