#!/usr/bin/env bash
# Arguments by position, a function, a branch that nobody can foresee.
ENGINE=${2:-fsdp}
common() {
    echo data.train_files=/data/train.parquet data.val_files=/data/val.parquet
}
EXTRA=""
if [ "$ENGINE" = megatron ]; then
    EXTRA="model_engine=megatron"
elif npu-smi info >/dev/null 2>&1; then
    EXTRA="trainer.device=npu"
fi
for lr in 1e-6; do
    if [[ -n "$RESUME" ]]; then
        EXTRA+=" trainer.resume_mode=$RESUME"
    fi
    bash -c "nohup python3 -m verl.trainer.main_ppo data.train_files=/data/train.parquet data.val_files=/data/val.parquet \
        actor_rollout_ref.model.path=$1 actor_rollout_ref.actor.optim.lr=$lr $EXTRA trainer.nnodes=1"
done
