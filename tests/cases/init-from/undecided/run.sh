#!/bin/bash
[ -z "$DATA_DIR" ] && { echo "DATA_DIR?"; exit 1; }
: "${RUNS:?where to}"
if [ -z "$MODEL_PATH" ]; then
  MODEL_PATH=/models/q
fi
DEVICE=${DEVICE:-$(python3 -c 'import torch_npu' && echo npu || echo gpu)}
LAUNCH=(uv run python3)
ROLLOUT=(actor_rollout_ref.rollout.n=8)
case "$DEVICE" in
  gpu) CARDS=8; ROLLOUT+=(actor_rollout_ref.rollout.load_format=safetensors) ;;
  npu) CARDS=16; LAUNCH=(python3); ROLLOUT+=(actor_rollout_ref.rollout.enforce_eager=True) ;;
  *) exit 1 ;;
esac
"${LAUNCH[@]}" -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=$DATA_DIR/t.parquet \
  data.val_files=/d/v.parquet actor_rollout_ref.model.path=$MODEL_PATH data.train_batch_size=$(wc -l < /etc/hosts) \
  trainer.n_gpus_per_node=$CARDS "${ROLLOUT[@]}" "$@"
