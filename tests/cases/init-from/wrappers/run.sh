#!/usr/bin/env bash
# A launcher in an array, as verl's own scripts have it, inside a step of Slurm; a Ray of its own, on a port of its own.
set -xeuo pipefail
export RAY_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
LAUNCH=(uv run --frozen --with "ray[default]" --python 3.11 --extra gpu python3)
SUBMIT=(srun --nodes 1 --ntasks-per-node=1 --container-image=verl.sqsh)
train() {
    "${SUBMIT[@]}" "${LAUNCH[@]}" -m verl.trainer.main_ppo "$@"
}
ray status || ray start --head --port "$RAY_PORT"
cat > notes.txt <<EOF
ray start --head is for others; ray job submit, too
EOF
train \
    algorithm.adv_estimator=grpo \
    data.train_files=/data/train.parquet data.val_files=/data/val.parquet \
    actor_rollout_ref.model.path=/models/q \
    data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.rollout.n=8
