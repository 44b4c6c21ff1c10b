def compute_score(*_):
    return 0.0
