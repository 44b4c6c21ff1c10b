#!/usr/bin/env bash
# Trains 'vllm-cuda, arm main, seed 1'. supervise.sh starts this file and sets every RLX_ variable in it.
set -euo pipefail

export OMP_NUM_THREADS=1
export TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1
export TRANSFORMERS_OFFLINE=1
export HF_DATASETS_OFFLINE=1
export VLLM_ENABLE_V1_MULTIPROCESSING=0
export PATH='/opt/my python/bin':"$PATH"
export PYTHONPATH="$RLX_RUN_DIR/payload${PYTHONPATH:+:$PYTHONPATH}"

cd "$RLX_RUN_DIR"
python3 "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  /models/qwen \
  /data/train.parquet \
  /data/val.parquet \
  || echo "rlx: no record of versions and data" >&2

exec python3 -u "$RLX_RUN_DIR/payload/rlx_trl_train.py"
