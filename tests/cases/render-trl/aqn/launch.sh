#!/usr/bin/env bash
# Trains 'aqn, arm main, seed 1'. supervise.sh starts this file and sets every RLX_ variable in it.
set -euo pipefail

export OMP_NUM_THREADS=2
export TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1
export TRANSFORMERS_OFFLINE=1
export HF_DATASETS_OFFLINE=1
export PATH='/opt/my python/bin':"$PATH"
export PYTHONPATH="$RLX_RUN_DIR/payload${PYTHONPATH:+:$PYTHONPATH}"
unset CUDA_VISIBLE_DEVICES

cd '/my work'
python3 "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  /models/tiny \
  /data/train.parquet \
  /data/val.parquet \
  || echo "rlx: no record of versions and data" >&2

exec python3 -u "$RLX_RUN_DIR/payload/rlx_trl_train.py"
