"""Small checkouts with noise code of the shapes that are met in public, written for the tests."""

from __future__ import annotations

from pathlib import Path

SCHEDULE = """
import torch

def sigma_now(step, total_steps, sigma_trend):
    stage = int(step * (len(sigma_trend) + 1) // total_steps)
    return stage, 0.0 if stage == 0 else sigma_trend[min(stage, len(sigma_trend)) - 1]
"""
ADD = """
def add_noise(model, step, total_step, sigma_trend, verbose=True):
    sigma = sigma_now(step, total_step, sigma_trend)[1]
    for name, module in model.named_modules():
        if {condition} and sigma:
            with torch.no_grad():
                module.weight.add_(torch.randn(module.weight.shape) * sigma)
"""
BY_CLASS = "from transformers.models.llama.modeling_llama import LlamaRMSNorm\n" + SCHEDULE
BY_CLASS += ADD.format(condition="isinstance(module, LlamaRMSNorm)")
BY_TEXT = SCHEDULE + ADD.format(condition='"norm" in name')
WITHOUT_SIGMA = BY_TEXT.replace("0.0 if stage == 0 else sigma_trend[min(stage, len(sigma_trend)) - 1]", "0.0")


def checkout(folder: Path, code: str, **others: str) -> Path:
    """`others` are modules beside the noise code, in a package whose own `__init__` fails."""
    package = folder / "trainer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('the training framework is not here')\n", encoding="utf-8")
    (package / "noise.py").write_text(code, encoding="utf-8")
    for name, text in others.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return folder
