"""verl's own function as seed 003 names it: it does not take what verl passes."""


def compute_score(solution_str, ground_truth, method="strict"):
    return float(ground_truth in solution_str)
