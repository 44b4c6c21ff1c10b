#!/bin/bash
set -xeuo pipefail
pkill -9 python
source /usr/local/Ascend/ascend-toolkit/set_env.sh
export HF_TOKEN=hf_NotARealTokenOfAnybody
export WANDB_API_KEY="0123456789abcdef0123456789abcdef"
export HCCL_BUFFSIZE=512
export PYTHONPATH=/verl:${PYTHONPATH:-}
export http_proxy=http://me:secretpassword@proxy.example:8080
export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3
curl --password 'hunter2hunter2' -H "Authorization: Bearer abcdefghijkl" example.invalid

MODEL=${MODEL:-"$HOME/models/Qwen2.5-1.5B"}
DATA_DIR=${1:-/data/gsm8k}
batch=64
NPUS=${NPUS:-8}
files=(
    data.train_files=$DATA_DIR/train.parquet
    data.val_files="['$DATA_DIR/test.parquet', '$DATA_DIR/test2.parquet']"
)
cd /verl
ray job submit --address "http://127.0.0.1:8265" --runtime-env=verl/trainer/runtime_env.yaml \
    --runtime-env-json='{"env_vars": {"VLLM_USE_V1": "1"}}' \
    -- python3 -u -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    "${files[@]}" \
    data.train_batch_size=$batch \
    actor_rollout_ref.actor.ppo_mini_batch_size=$((batch / 4)) \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \
    actor_rollout_ref.actor.optim.lr=5e-7 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.rollout.n=4 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.model.path=$MODEL \
    +actor_rollout_ref.rollout.engine_kwargs.vllm.compilation_config.cudagraph_mode=FULL_DECODE_ONLY \
    trainer.logger="['console','wandb']" \
    trainer.experiment_name=grpo_$(date +%m%d) \
    trainer.log_val_generations=$(nproc) \
    +trainer.wandb_token=$HF_TOKEN \
    trainer.nnodes=1 trainer.n_gpus_per_node=$NPUS \
    trainer.total_epochs=2 trainer.test_freq=20 $@ 2>&1 | tee "train_$(date +%s).log"
