"""Trains with TRL's GRPOTrainer, as trl.json beside this file says. launch.sh starts it.

    python rlx_trl_train.py

Leaves in the attempt's directory what rlx judges by: metrics.jsonl, validation/STEP.jsonl, events/, and a line a step
in the log. Checkpoints lie in the run's own checkpoints/. A further attempt of a run goes on from the one that was
chosen for it, RLX_RESUME_FROM, unless that says none.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from data_rows import expanded
from rlx_trl_records import StepRecords
from rlx_trl_rewards import Rewards
from rlx_trl_rows import dataset, read_rows
from rlx_trl_track import trackers
from rlx_trl_trainer import RecordingTrainer
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig


def main() -> None:
    order = json.loads(Path(__file__).with_name("trl.json").read_text(encoding="utf-8"))
    run_dir, attempt_dir = Path(os.environ["RLX_RUN_DIR"]), Path(os.environ["RLX_ATTEMPT_DIR"])
    checkpoints = run_dir / "checkpoints"
    begun = chosen_checkpoint()
    trainer = prepared(order, checkpoints, attempt_dir, resumes=begun is not None)
    if begun is not None:
        print(f"rlx: TRL goes on from the checkpoint of step {begun.name.rpartition('-')[2]}", flush=True)
    trainer.train(resume_from_checkpoint=str(begun) if begun else None)
    trainer.look_at_what_is_left()


def chosen_checkpoint() -> Path | None:
    """Return the checkpoint to continue from; None for a new training."""
    chosen = os.environ.get("RLX_RESUME_FROM", "")
    return None if chosen in ("", "none") else Path(chosen)


def prepared(order: dict[str, Any], checkpoints: Path, attempt_dir: Path, *, resumes: bool) -> RecordingTrainer:
    """Build the trainer; errors in model, data and reward show up here."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    path = str(expanded(order["model"]))
    if "vllm" in order:
        import rlx_trl_vllm

        rlx_trl_vllm.tell(order["vllm"], cpu=order["arguments"]["use_cpu"])
    tokenizer = AutoTokenizer.from_pretrained(path)
    train, validation = (read_rows(order, tokenizer, split) for split in ("train", "val"))
    rewards = Rewards(order["reward"], {"train": train, "val": validation})
    records = StepRecords(attempt_dir, checkpoints, order["validation"], rewards)
    arguments = {**order["arguments"], "output_dir": str(checkpoints)}
    track = order.get("track", {"to": [], "name": None})
    arguments["run_name"] = track["name"]
    if resumes:
        arguments["eval_on_start"] = False  # the checkpoint's own step was validated before it was saved
    trainer = RecordingTrainer(
        log_prob_batch=order["log_prob_micro_batch_size"],
        model=AutoModelForCausalLM.from_pretrained(path, dtype=order["dtype"]),
        reward_funcs=rewards.acc,
        args=GRPOConfig(**arguments),
        train_dataset=dataset(train, "train"),
        eval_dataset=dataset(validation, "val"),
        processing_class=tokenizer,
        callbacks=[records, *trackers(track["to"])],
    )
    trainer.remove_callback(PrinterCallback)
    write_arguments(trainer.args, attempt_dir)
    print(f"rlx: TRL trains {order['arguments']['max_steps']} steps", flush=True)
    print(f"rlx: TRL reads {len(train)} rows to train on, {len(validation)} to validate on", flush=True)
    return trainer


def write_arguments(arguments: GRPOConfig, attempt_dir: Path) -> None:
    """Write down what the trainer was really given; TRL masks tokens in it. A failure costs that record alone.

    The place is that of the configuration that Hydra composes for other back-ends. JSON is YAML.
    """
    place = attempt_dir / "hydra/.hydra/config.yaml"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(arguments.to_dict(), indent=1, default=str) + "\n", encoding="utf-8")
    except (OSError, TypeError, ValueError) as problem:
        print(f"rlx: the arguments of the trainer could not be written down: {problem}", flush=True)


def _end(code: int) -> None:
    """Without taking the interpreter down further than needed: pyarrow's threads abort that now and then."""
    import atexit

    atexit._run_exitfuncs()  # the records say at their end how many lines they have
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


# vLLM starts processes that import this file again.
if __name__ == "__main__":
    main()
    _end(0)
