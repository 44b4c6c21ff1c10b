"""Evaluates the last checkpoint of a run on held-out rows, after its training: `eval: post` of the recipe.

    python rlx_eval.py check      before the training: are the rows there, does the reward function load?
    python rlx_eval.py run        after it: convert, generate, grade, and write the result down as verl would

Beside this file, `eval.json` says what to do (rlx_eval_order.py). Leaves `validation/STEP.jsonl`, one line an answer, a
line in `metrics.jsonl`, and `step:STEP - METRIC:VALUE` in the log. Ends with 1 and one line where that cannot be.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from data_rows import expanded
from rlx_eval_checkpoint import convert, last_checkpoint
from rlx_eval_grade import Grade, load_reward
from rlx_eval_order import EvalFailure, EvalOrder
from rlx_eval_rows import EvalRow, read_rows

# Neither verl's merger nor its rewards need a module that the trainer was told to import, such as noise.
OF_THE_TRAINER = ("VERL_USE_EXTERNAL_MODULES", "VERL_PLATFORM", "VERL_ENGINE_DEVICE")
# As in the name of the metric.
SOURCE = "post"


def check(order: EvalOrder) -> None:
    """Check before the training what the evaluation needs after it. Raises EvalFailure for anything missing."""
    read_rows(order)
    load_reward(order)
    if order.convert and not os.access(expanded(order.convert), os.X_OK):
        raise EvalFailure(f"convert: {order.convert} is no program that can be run here")


def run(order: EvalOrder, run_dir: Path, attempt_dir: Path) -> None:
    rows, grade = read_rows(order), load_reward(order)
    step, checkpoint = last_checkpoint(run_dir, attempt_dir)
    # Only what this stage made itself is ever removed.
    folder = attempt_dir / "converted"
    folder.mkdir()
    try:
        convert(order, checkpoint, folder)
        answers = _answers(order, folder, rows)
    finally:
        shutil.rmtree(folder)
    _write(order, attempt_dir, step, [_line(step, row, *answer, grade) for row, answer in answers])


def _answers(order: EvalOrder, folder: Path, rows: list[EvalRow]) -> list[tuple[EvalRow, tuple[str, str]]]:
    """Each row with the text of its prompt and of an answer, as often as there are samples."""
    from rlx_eval_generate import answers

    samples = [row for row in rows for _ in range(order.n)]
    _say(f"{len(rows)} rows, {order.n} answers each, by {order.engine}")
    return list(zip(samples, answers(order, folder, [row.chat for row in samples]), strict=True))


def _line(step: int, row: EvalRow, prompt: str, output: str, grade: Grade) -> dict[str, Any]:
    """As verl's `_dump_generations` writes it: `score` and `reward` are what the function gives, `acc` its accuracy."""
    result = grade(row, output)
    told = {**result, "reward": result["score"]}
    # The source keeps these apart from the outputs of a validation during the training.
    return {"input": prompt, "output": output, "gts": row.truth, "step": step, **told, "data_source": SOURCE}


def _write(order: EvalOrder, attempt_dir: Path, step: int, lines: list[dict[str, Any]]) -> None:
    """Write the outputs before the value, so that a reported value always has its outputs."""
    path = attempt_dir / "validation" / f"{step}.jsonl"
    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False, default=str) + "\n" for line in lines)
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    # Every row has as many answers, so the mean over all is the mean of the rows' means.
    value = fmean(float(line["acc"]) for line in lines)
    with (attempt_dir / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step, "data": {order.metric: value}}) + "\n")
    print(f"step:{step} - {order.metric}:{value!r}", flush=True)


def _say(text: str) -> None:
    print(f"rlx: eval.post: {text}", file=sys.stderr, flush=True)


def main(what: str) -> int:
    for name in OF_THE_TRAINER:
        os.environ.pop(name, None)
    try:
        order = EvalOrder.read(Path(__file__).with_name("eval.json"))
        if what == "check":
            check(order)
        else:
            run(order, Path(os.environ["RLX_RUN_DIR"]), Path(os.environ["RLX_ATTEMPT_DIR"]))
    except EvalFailure as failure:
        _say(str(failure))
        return 1
    return 0


def _end(code: int) -> None:
    """Without taking the interpreter down: pyarrow's threads abort that now and then, and the exit code counts."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


# vLLM starts processes that import this file again.
if __name__ == "__main__":
    _end(main(sys.argv[1]))
