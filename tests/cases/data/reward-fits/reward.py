from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Answer:
    text: str


def compute_score(data_source, solution_str, ground_truth, extra_info, bonus):
    print("a reward that talks")
    return {"score": bonus * float(ground_truth in Answer(solution_str).text)}
