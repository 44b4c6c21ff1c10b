#!/usr/bin/env bash
# Trains 'vllm, arm main, seed 1'. supervise.sh starts this file and sets every RLX_ variable in it.
set -euo pipefail

export OMP_NUM_THREADS=1
export TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1
export TRANSFORMERS_OFFLINE=1
export HF_DATASETS_OFFLINE=1
export VLLM_ENABLE_V1_MULTIPROCESSING=0
export TORCHDYNAMO_DISABLE=1
export VLLM_CPU_OMP_THREADS_BIND=nobind
export VLLM_NO_USAGE_STATS=1
export PATH='/opt/my python/bin':"$PATH"
export PYTHONPATH="$RLX_RUN_DIR/payload${PYTHONPATH:+:$PYTHONPATH}"
unset CUDA_VISIBLE_DEVICES

cd "$RLX_RUN_DIR"
"$HOME"/venv/bin/python "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  /models/tiny \
  /data/train.parquet \
  /data/val.parquet \
  || echo "rlx: no record of versions and data" >&2

exec "$HOME"/venv/bin/python -u "$RLX_RUN_DIR/payload/rlx_trl_train.py"
