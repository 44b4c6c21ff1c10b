#!/bin/bash
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python3 -m verl.trainer.main_ppo \
    --config-path="$HERE/config" \
    --config-name='tool_grpo' \
    data.train_files=/data/train.parquet \
    data.val_files=/data/val.parquet \
    actor_rollout_ref.actor.optim.lr=2e-6 \
    trainer.nnodes=1
