"""A reward function that travels with a run: its content is part of the digest."""


def score(data_source: str, solution_str: str, ground_truth: str, extra_info: object = None, bonus: float = 0.0) -> float:
    return float(solution_str.strip() == ground_truth) + bonus
