#!/usr/bin/env bash
# Trains 'cuda-lora-reward-file, arm main, seed 7'. supervise.sh starts this file and sets every RLX_ variable in it.
# Hydra, not the shell, expands ${oc.env:…} in the arguments.
# shellcheck disable=SC2016
set -euo pipefail

export GREETING='it'"'"'s $HOME'
export PYTHONPATH='/opt/my lib'
export VERL_USE_EXTERNAL_MODULES=rlx_verl_track
export PATH=/opt/tools:"$PATH"
export PATH='/opt/my python/bin':"$PATH"
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
  export CUDA_VISIBLE_DEVICES="$RLX_DEVICES"
fi

cd "$HOME"/'my verl'
"$HOME"/venv/bin/python "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  "$HOME"/'models/it'"'"'s here' \
  '/data/$(touch pwned)/train.parquet' \
  '/data/`id`/test "2".parquet' \
  || echo "rlx: no record of versions and data" >&2

# A further attempt goes on from the checkpoint that was chosen for it, or begins anew.
set --
case ${RLX_RESUME_FROM:-} in
  '') ;;
  none) set -- trainer.resume_mode=disable ;;
  *) set -- trainer.resume_mode=resume_path 'trainer.resume_from_path=${oc.env:RLX_RESUME_FROM}' ;;
esac
exec "$HOME"/venv/bin/python -u -m verl.trainer.main_ppo \
  actor_rollout_ref.actor.strategy=fsdp2 \
  trainer.device=cuda \
  trainer.nnodes=1 \
  trainer.n_gpus_per_node=4 \
  actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 \
  actor_rollout_ref.model.use_remove_padding=True \
  'actor_rollout_ref.model.path="${oc.env:HOME}/models/it'"'"'s here"' \
  actor_rollout_ref.rollout.dtype=bfloat16 \
  actor_rollout_ref.actor.fsdp_config.dtype=bfloat16 \
  actor_rollout_ref.ref.fsdp_config.dtype=bfloat16 \
  actor_rollout_ref.model.lora_rank=32 \
  actor_rollout_ref.model.lora_alpha=64 \
  'actor_rollout_ref.model.target_modules=[q_proj, v_proj]' \
  'data.train_files="/data/$(touch pwned)/train.parquet"' \
  'data.val_files="/data/`id`/test \"2\".parquet"' \
  'data.prompt_key="the prompt"' \
  data.max_prompt_length=512 \
  data.max_response_length=256 \
  data.filter_overlong_prompts=True \
  'reward.custom_reward_function.path="${oc.env:RLX_RUN_DIR}/payload/score.py"' \
  reward.custom_reward_function.name=compute_score \
  '+reward.custom_reward_function.reward_kwargs={tag: "<answer>", weights: [0.5, 1], note: "it'"'"'s 100 %"}' \
  algorithm.adv_estimator=reinforce_plus_plus \
  actor_rollout_ref.actor.use_kl_loss=False \
  algorithm.use_kl_in_reward=True \
  algorithm.kl_ctrl.kl_coef=0.01 \
  algorithm.kl_penalty=kl \
  data.train_batch_size=64 \
  actor_rollout_ref.actor.ppo_mini_batch_size=64 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \
  actor_rollout_ref.actor.optim.lr=1e-06 \
  trainer.total_epochs=1 \
  trainer.save_freq=-1 \
  data.seed=7 \
  actor_rollout_ref.actor.data_loader_seed=7 \
  actor_rollout_ref.actor.fsdp_config.seed=7 \
  actor_rollout_ref.ref.fsdp_config.seed=7 \
  actor_rollout_ref.rollout.name=sglang \
  actor_rollout_ref.rollout.n=1 \
  actor_rollout_ref.rollout.temperature=1.0 \
  actor_rollout_ref.rollout.top_p=0.95 \
  actor_rollout_ref.rollout.top_k=50 \
  actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
  actor_rollout_ref.rollout.expert_parallel_size=1 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
  actor_rollout_ref.rollout.enforce_eager=True \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2 \
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2 \
  actor_rollout_ref.rollout.calculate_log_probs=True \
  trainer.test_freq=-1 \
  trainer.val_before_train=True \
  actor_rollout_ref.rollout.val_kwargs.n=4 \
  actor_rollout_ref.rollout.val_kwargs.temperature=0.6 \
  actor_rollout_ref.rollout.val_kwargs.do_sample=True \
  trainer.experiment_name=main-s7 \
  'trainer.default_local_dir="${oc.env:RLX_RUN_DIR}/checkpoints"' \
  'trainer.validation_data_dir="${oc.env:RLX_ATTEMPT_DIR}/validation"' \
  'hydra.run.dir="${oc.env:RLX_ATTEMPT_DIR}/hydra"' \
  'trainer.logger=[console, file, wandb]' \
  '+trainer.note="a=b, {c}: \ \"quoted\" '"'"'twice'"'"'"' \
  'trainer.project_name="${oc.env:USER}"' \
  'actor_rollout_ref.actor.optim.override_optimizer_config={foreach: False}' \
  "$@"
