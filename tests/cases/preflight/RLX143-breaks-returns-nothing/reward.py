def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    score = float(ground_truth in solution_str)
