#!/usr/bin/env bash
# Trains 'control, arm control, seed 7'. supervise.sh starts this file and sets every RLX_ variable in it.
set -euo pipefail

export OMP_NUM_THREADS=1
export TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1
export TRANSFORMERS_OFFLINE=1
export HF_DATASETS_OFFLINE=1
export PATH='/opt/my python/bin':"$PATH"
export PYTHONPATH="$RLX_RUN_DIR/payload${PYTHONPATH:+:$PYTHONPATH}"
unset CUDA_VISIBLE_DEVICES

cd "$RLX_RUN_DIR"
"$HOME"/venv/bin/python "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  "$HOME"/tiny/model \
  "$HOME"/tiny/train.parquet \
  '/data/val 2.parquet' \
  || echo "rlx: no record of versions and data" >&2

exec "$HOME"/venv/bin/python -u "$RLX_RUN_DIR/payload/rlx_trl_train.py"
