"""The recipe's keys for what people type who come from TRL."""

RECIPE_KEYS = {
    "beta": "algorithm.kl.coef",
    "eval_steps": "eval.every",
    "max_completion_length": "data.max_response_tokens",
    "max_steps": "train.steps",
    "num_generations": "rollout.n",
    "num_train_epochs": "train.epochs",
    "per_device_train_batch_size": "train.micro_batch_size",
    "save_steps": "train.save_every",
}
