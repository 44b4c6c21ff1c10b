def compute_score(solution_str, ground_truth, **_):
    return float(solution_str == ground_truth)
