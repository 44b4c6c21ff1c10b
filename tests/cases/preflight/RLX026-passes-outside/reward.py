def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return float(ground_truth in solution_str)
