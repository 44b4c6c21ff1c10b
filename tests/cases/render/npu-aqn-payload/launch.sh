#!/usr/bin/env bash
# Trains 'npu-aqn-payload, arm main, seed 1'. supervise.sh starts this file and sets every RLX_ variable in it.
# Hydra, not the shell, expands ${oc.env:…} in the arguments.
# shellcheck disable=SC2016
# `docker exec` skips profiles and entry points. CANN's scripts read unset variables, so they come before `set -u`.
for cann_script in /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/nnal/atb/set_env.sh; do
  if [[ -r $cann_script ]]; then
    # shellcheck disable=SC1090
    source "$cann_script"
  fi
done
set -euo pipefail

export HCCL_HOST_SOCKET_PORT_RANGE=auto
export HCCL_NPU_SOCKET_PORT_RANGE=auto
export HCCL_CONNECT_TIMEOUT=1800
export VLLM_ASCEND_ENABLE_NZ=0
export VERL_USE_EXTERNAL_MODULES=mine,rlx_verl_hook,rlx_verl_weights
export PATH=/opt/tools:"$PATH"
export PATH='/opt/my python/bin':"$PATH"
# Ray and HCCL open many files: as many as 65535 where the limit is lower and may be raised.
if [[ $(ulimit -Sn) != unlimited ]] && (( $(ulimit -Sn) < 65535 )); then
  ulimit -Sn 65535 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"
fi
# Ray gives memory back only with it; a path that does not exist would be complained about by every process.
for library in /usr/local/lib/libjemalloc.so.2 "/usr/lib/$(uname -m)-linux-gnu/libjemalloc.so.2" \
  /usr/lib64/libjemalloc.so.2; do
  if [[ -r $library ]]; then
    export LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}"
    break
  fi
done

export PYTHONPATH="$RLX_RUN_DIR/payload${PYTHONPATH:+:$PYTHONPATH}"
export VERL_FILE_LOGGER_PATH="$RLX_ATTEMPT_DIR/metrics.jsonl"
# A Ray of its own, which no neighbour can join, and which joins no neighbour's.
export RAY_ADDRESS=local
export RAY_TMPDIR="$RLX_RAY_TMP"
export RAY_AUTH_MODE=token
export RAY_AUTH_TOKEN_PATH="$RLX_RAY_TMP/token"
export RAY_DEDUP_LOGS=0
export RAY_USAGE_STATS_ENABLED=0
if [[ -n ${RLX_DEVICES:-} ]]; then
  export ASCEND_RT_VISIBLE_DEVICES="$RLX_DEVICES"
fi

cd /verl
python3 "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  /data/models/Qwen2.5-1.5B-Instruct \
  /data/gsm8k/train.parquet \
  /data/gsm8k/test.parquet \
  || echo "rlx: no record of versions and data" >&2

# A further attempt goes on from the checkpoint that was chosen for it, or begins anew.
set --
case ${RLX_RESUME_FROM:-} in
  '') ;;
  none) set -- trainer.resume_mode=disable ;;
  *) set -- trainer.resume_mode=resume_path 'trainer.resume_from_path=${oc.env:RLX_RESUME_FROM}' ;;
esac
exec python3 -u -m verl.trainer.main_ppo \
  actor_rollout_ref.actor.strategy=fsdp \
  trainer.device=npu \
  trainer.nnodes=1 \
  trainer.n_gpus_per_node=8 \
  actor_rollout_ref.actor.use_torch_compile=False \
  actor_rollout_ref.actor.fsdp_config.use_torch_compile=False \
  actor_rollout_ref.ref.fsdp_config.use_torch_compile=False \
  actor_rollout_ref.model.path=/data/models/Qwen2.5-1.5B-Instruct \
  actor_rollout_ref.rollout.dtype=bfloat16 \
  actor_rollout_ref.actor.fsdp_config.dtype=bfloat16 \
  actor_rollout_ref.ref.fsdp_config.dtype=bfloat16 \
  data.train_files=/data/gsm8k/train.parquet \
  data.val_files=/data/gsm8k/test.parquet \
  data.prompt_key=prompt \
  data.max_prompt_length=1024 \
  data.max_response_length=1024 \
  data.filter_overlong_prompts=True \
  algorithm.adv_estimator=grpo \
  actor_rollout_ref.actor.use_kl_loss=True \
  algorithm.use_kl_in_reward=False \
  actor_rollout_ref.actor.kl_loss_coef=0.001 \
  actor_rollout_ref.actor.kl_loss_type=low_var_kl \
  data.train_batch_size=128 \
  actor_rollout_ref.actor.ppo_mini_batch_size=32 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.actor.optim.lr=5e-07 \
  trainer.total_epochs=2 \
  trainer.save_freq=-1 \
  data.seed=1 \
  actor_rollout_ref.actor.data_loader_seed=1 \
  actor_rollout_ref.actor.fsdp_config.seed=1 \
  actor_rollout_ref.ref.fsdp_config.seed=1 \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.n=5 \
  actor_rollout_ref.rollout.temperature=1.0 \
  actor_rollout_ref.rollout.top_p=1.0 \
  actor_rollout_ref.rollout.top_k=-1 \
  actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
  actor_rollout_ref.rollout.expert_parallel_size=1 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.8 \
  actor_rollout_ref.rollout.enforce_eager=True \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.rollout.calculate_log_probs=True \
  trainer.test_freq=20 \
  trainer.val_before_train=True \
  actor_rollout_ref.rollout.val_kwargs.n=1 \
  actor_rollout_ref.rollout.val_kwargs.temperature=0.0 \
  actor_rollout_ref.rollout.val_kwargs.do_sample=False \
  trainer.project_name=npu-aqn-payload \
  trainer.experiment_name=main-s1 \
  'trainer.logger=[console, file]' \
  'trainer.default_local_dir="${oc.env:RLX_RUN_DIR}/checkpoints"' \
  'trainer.validation_data_dir="${oc.env:RLX_ATTEMPT_DIR}/validation"' \
  'hydra.run.dir="${oc.env:RLX_ATTEMPT_DIR}/hydra"' \
  "$@"
