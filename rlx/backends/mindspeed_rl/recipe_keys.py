"""The recipe's keys for what people type who come from MindSpeed-RL."""

RECIPE_KEYS = {
    "global_batch_size": "train.batch_size",
    "infer_tensor_parallel_size": "rollout.tp",
    "n_samples_per_prompt": "rollout.n",
    "train_iters": "train.steps",
}
