"""Make up rows where nobody has any: a few sums, in the form in which verl reads GSM8K."""

from __future__ import annotations

from typing import Any

from rlx.planning.rehearsal.rows import Schema

_QUESTIONS = (("Ann has 3 apples and buys 4 more. How many has she now?", "7"), ("What is 12 minus 5?", "7"))


def _made_up(prompt_key: str, role: str, count: int) -> Any:
    """Rows as verl's own GSM8K example has them."""
    import pyarrow

    rows = []
    for index in range(count):
        question, answer = _QUESTIONS[index % len(_QUESTIONS)]
        rows.append(
            {
                "data_source": "openai/gsm8k",
                prompt_key: [{"role": "user", "content": f'{question} Output the final answer after "####".'}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": answer},
                "extra_info": {"index": index, "split": role, "question": question, "answer": f"#### {answer}"},
            }
        )
    return pyarrow.Table.from_pylist(rows)


SCHEMA = Schema("verl's schema", _made_up)
