#!/usr/bin/env bash
# GRPO with TRL on the tiny model, as its users start it by hand. PYTHON names the environment that has TRL.
set -euo pipefail
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

exec "$PYTHON" -u "$PROGRAM" \
    --output_dir "$(mktemp -d)" --report_to none --use_cpu true --bf16 false --gradient_checkpointing false \
    --max_steps 6 --per_device_train_batch_size 32 --num_generations 8 --max_completion_length 8 \
    --learning_rate "${LR:-2e-4}" --logging_steps 1 --save_strategy no --dataloader_pin_memory false \
    --eval_strategy steps --eval_steps 3 --per_device_eval_batch_size 104 --eval_on_start true \
    --seed "${RLX_SEED:-42}"
