"""Drives verl's extension of vLLM's worker and its transfer of weights, in a real engine, with the noise around them.

    python drive_extension.py MODEL        prints one JSON object of what was seen

No Ray and no trainer: the nearest to a run that there is on a CPU for verl before 0.9, which has no platform for one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from typing import Any

import torch

QUESTIONS = [f"<|im_start|>user\n{a}+{b}=?<|im_end|>\n<|im_start|>assistant\n" for a in range(10) for b in range(10)]


class Engine:
    """A vLLM with verl's extension in its worker, and dummy weights until the first sync."""

    def __init__(self, model: str) -> None:
        from vllm import LLM

        self.llm = LLM(
            model=model,
            dtype="float32",
            max_model_len=64,
            max_num_seqs=64,
            enforce_eager=True,
            load_format="dummy",
            worker_cls="extension_worker.ExtensionWorker",
            worker_extension_cls="verl.workers.rollout.vllm_rollout.utils.vLLMColocateWorkerExtension",
        )
        self._socket = self.llm.collective_rpc("_get_zmq_handle")[0]

    def sync(self, weights: Mapping[str, torch.Tensor]) -> str:
        """Send weights as verl's trainer does. Returns what the norm layers have then."""
        from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightSender

        sender = BucketedWeightSender(zmq_handle=self._socket, bucket_size_mb=16, use_shm=True)
        thread = threading.Thread(target=lambda: asyncio.run(sender.async_send_weights(iter(weights.items()))))
        thread.start()
        self.llm.collective_rpc("update_weights_from_ipc", kwargs={"use_shm": True})
        thread.join()
        return self.digest()

    def enter(self, phase: str, step: int) -> str:
        """Let the hook do what it does at this point of a run. Returns what the norm layers have then."""
        self.llm.collective_rpc("rlx_enter", args=(phase, step, 0))
        self.llm.reset_prefix_cache()
        return self.digest()

    def digest(self) -> str:
        return str(self.llm.collective_rpc("norm_digest")[0])

    def answers(self) -> list[str]:
        from vllm import SamplingParams

        outputs = self.llm.generate(QUESTIONS, SamplingParams(temperature=0.0, max_tokens=8), use_tqdm=False)
        return [output.outputs[0].text for output in outputs]


def main(model: str) -> None:
    import old_verl_on_cpu

    old_verl_on_cpu.install_in_engine()
    import verl
    from safetensors.torch import load_file

    clean = load_file(f"{model}/model.safetensors")
    engine = Engine(model)
    seen: dict[str, Any] = {"verl": verl.__version__, "dummy": engine.digest(), "synced": engine.sync(clean)}
    seen["answers"] = engine.answers()
    seen["step 1"] = engine.enter("rollout", 1)
    seen["step 4"] = engine.enter("rollout", 4)
    seen["noisy answers"] = engine.answers()
    seen["validation"] = engine.enter("validation", 3)
    seen["validated answers"] = engine.answers()
    seen["step 4 again"] = engine.enter("rollout", 4)
    # As with adapters: the norms never come, so the hook has to take its noise off itself.
    seen["synced without norms"] = engine.sync({name: weight for name, weight in clean.items() if "norm" not in name})
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1])
