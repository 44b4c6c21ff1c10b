"""What the source of noise code says: found by its shape, resolved by its syntax tree, never executed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlx.api.noise import read_noise_code
from rlx.audit import engine_classes, find_hook, sources_in
from rlx.errors import RlxError
from tests.audit.checkouts import BY_CLASS, BY_TEXT, SCHEDULE, checkout

CALLER = """
from trainer.noise import add_noise
add_noise(model=model, step=0, total_step=1, sigma_trend=[sigma])
add_noise(model, self.step, self.total, trend)
"""
VLLM = {
    "vllm/model_executor/models/qwen2.py": "from vllm.model_executor.layers.layernorm import RMSNorm\n"
    "class Layer:\n    def __init__(self):\n        self.norm = RMSNorm(8)\n        self.act = Gate()\n",
    "vllm/model_executor/layers/layernorm.py": "from ..custom_op import CustomOp\nclass RMSNorm(CustomOp):\n    pass\n",
    "vllm/model_executor/custom_op.py": "import torch.nn as nn\nclass CustomOp(nn.Module):\n    pass\n",
    "vllm-0.10.1.dist-info/METADATA": "",
}
TRANSFORMERS = {
    "transformers/models/llama/modeling_llama.py": "from torch import nn\nclass LlamaRMSNorm(nn.Module):\n    pass\n",
    "transformers/models/qwen2/modeling_qwen2.py": "from ..llama.modeling_llama import LlamaRMSNorm\n"
    "class Qwen2RMSNorm(LlamaRMSNorm):\n    pass\n"
    "class Layer:\n    def __init__(self):\n        self.input_layernorm = Qwen2RMSNorm(8)\n",
    "transformers-4.52.3.dist-info/METADATA": "",
}


def packages(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_what_the_source_says(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "c", BY_CLASS, loop=CALLER)
    (folder / "setup.sh").write_text(
        "pip install vllm==0.10.1\npip install 'transformers>=4.50,<5'\n", encoding="utf-8"
    )
    hook = find_hook(folder)
    assert (hook.file, hook.module, hook.commit) == ("trainer/noise.py", "trainer.noise", None)
    assert (hook.scheduler, hook.injector, hook.trend) == ("sigma_now", "add_noise", None)
    assert hook.names == (("LlamaRMSNorm", "transformers.models.llama.modeling_llama"),)
    assert [(call.where, call.constant) for call in hook.calls] == [
        ("trainer/loop.py:3", (0, 1)),
        ("trainer/loop.py:4", None),
    ]
    assert hook.calls[0].arguments == "step=0, total_step=1, sigma_trend=[sigma]"
    assert hook.pins == (("vllm", "==0.10.1", "setup.sh"), ("transformers", ">=4.50,<5", "setup.sh"))


def test_texts_and_the_function_that_makes_the_trend(tmp_path: Path) -> None:
    trend = "\ndef trend(sigma_start=1, sigma_end=1, num_stages=3):\n    return [sigma_start]\n"
    hook = find_hook(checkout(tmp_path / "c", BY_TEXT + trend))
    assert (hook.names, hook.texts, hook.trend) == ((), ("norm",), "trend")


def test_classes_imported_inside_the_function_count(tmp_path: Path) -> None:
    inside = BY_TEXT.replace(
        "    sigma = ", "    from transformers.models.qwen2 import Qwen2RMSNorm as N\n    str(N)\n    sigma = "
    )
    assert find_hook(checkout(tmp_path / "c", inside)).names == (("Qwen2RMSNorm", "transformers.models.qwen2"),)


def test_reading_executes_nothing(tmp_path: Path) -> None:
    trace = f"open({str(tmp_path / 'trace')!r}, 'w')\n"
    folder = checkout(tmp_path / "c", trace + BY_TEXT)
    (folder / "conftest.py").write_text(trace, encoding="utf-8")
    assert read_noise_code(folder, python=sys.executable).hook.file == "trainer/noise.py"
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "code", [SCHEDULE, "def add_noise(model, sigma):\n    pass\n", "def broken(:\nsigma_trend", ""]
)
def test_an_unknown_layout_says_what_was_looked_for(code: str, tmp_path: Path) -> None:
    with pytest.raises(RlxError, match=r"\b2\b") as refused:
        find_hook(checkout(tmp_path / "c", code))
    assert "(model, step, total_steps, sigma_trend)" in refused.value.hint
    with pytest.raises(RlxError, match="nowhere"):
        find_hook(tmp_path / "nowhere")


def test_of_several_one_is_named(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "c", BY_TEXT, copy=BY_CLASS)
    with pytest.raises(RlxError, match=r"trainer/copy\.py, trainer/noise\.py"):
        find_hook(folder)
    assert find_hook(folder, "trainer/copy.py").names
    with pytest.raises(RlxError, match=r"trainer/other\.py"):
        find_hook(folder, "trainer/other.py")


def test_the_commit_is_read_without_git(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "c", BY_TEXT)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-C", str(folder)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout.strip()
    assert find_hook(folder).commit == head
    subprocess.run([*git, "pack-refs", "--all"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", "--detach", str(tmp_path / "w")], check=True, capture_output=True)
    assert find_hook(folder).commit == find_hook(tmp_path / "w").commit == head


def test_a_pipe_for_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "c", BY_TEXT)
    (folder / ".git").mkdir()
    for path in (folder / ".git/HEAD", folder / "trainer/pipe.py", folder / "setup.py"):
        os.mkfifo(path)
    assert find_hook(folder).commit is None


def test_names_by_version(tmp_path: Path) -> None:
    """A class that inherits from the named one is matched, one that only has the same end of its name is not."""
    folder = packages(packages(tmp_path / "p", VLLM), TRANSFORMERS)
    reading = read_noise_code(checkout(tmp_path / "c", BY_CLASS), sources=[folder])
    pinned = {each.source.package: each for each in reading.engines if each.source.folder == folder}
    assert pinned["vllm"].source.version == "0.10.1"
    assert [each.bases for each in pinned["vllm"].norms] == [
        ("vllm.model_executor.layers.layernorm.RMSNorm", "vllm.model_executor.custom_op.CustomOp", "nn.Module")
    ]
    assert not pinned["vllm"].matches and pinned["transformers"].matches
    assert [each.bases[0] for each in reading.matched if each.source.folder == folder] == [
        "transformers.models.llama.modeling_llama.LlamaRMSNorm"
    ]


def test_the_transformers_that_is_installed(tmp_path: Path) -> None:
    reading = read_noise_code(checkout(tmp_path / "c", BY_CLASS), python=sys.executable)
    [here] = [each for each in reading.engines if each.source.package == "transformers"]
    assert [each.name for each in here.norms] == ["Qwen2RMSNorm"]
    assert not here.matches  # its Qwen2RMSNorm is a copy of LlamaRMSNorm, no child of it


def test_a_package_that_imports_itself_in_a_circle_ends(tmp_path: Path) -> None:
    circle = VLLM | {"vllm/model_executor/custom_op.py": "from vllm.model_executor.custom_op import CustomOp\n"}
    [source] = sources_in([packages(tmp_path, circle)])
    assert engine_classes(source)
