from functools import wraps


def by_keyword(function):
    @wraps(function)
    def called(**passed):
        return function(passed["solution_str"], passed["ground_truth"])

    return called


@by_keyword
def compute_score(answer, right):
    return float(answer == right)
