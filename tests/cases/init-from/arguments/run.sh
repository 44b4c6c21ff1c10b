#!/bin/bash
# A loop over the arguments, as many scripts begin; without arguments it is not entered.
BATCH=256
LR=5e-7
SAVE=20
while [[ "$#" -gt 0 ]]; do
  case "$1" in
    --batch) BATCH="$2"; shift 2 ;;
    --lr) LR="$2"; shift 2 ;;
    *) echo "unknown $1"; exit 1 ;;
  esac
done
while [ $# -gt 0 ]; do
  case $1 in
    --save) SAVE=$2; shift ;;
  esac
  shift
done
while true; do
  case "$1" in
    --no-save) SAVE=-1; shift ;;
    *) break ;;
  esac
done
ROOT=/data
SET=math
"${PREFIX}python" -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \
  data.train_files=$ROOT/$SET-$SET/train.parquet data.val_files=$ROOT/$SET/test.parquet \
  actor_rollout_ref.model.path=/models/q actor_rollout_ref.rollout.n=8 \
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=${LIMIT:-$(((512 + 512) * 2))} \
  data.train_batch_size=$BATCH actor_rollout_ref.actor.optim.lr=$LR trainer.save_freq=$SAVE
