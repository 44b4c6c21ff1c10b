from verl.utils.reward_score import default_compute_score as score
