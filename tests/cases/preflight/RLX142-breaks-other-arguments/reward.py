def compute_score(answer, truth):
    return float(answer == truth)
