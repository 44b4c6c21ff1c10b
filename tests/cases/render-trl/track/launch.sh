#!/usr/bin/env bash
# Trains 'tracked, arm control, seed 7'. supervise.sh starts this file and sets every RLX_ variable in it.
set -euo pipefail

export OMP_NUM_THREADS=1
export TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1
export TRANSFORMERS_OFFLINE=1
export HF_DATASETS_OFFLINE=1
export PATH='/opt/my python/bin':"$PATH"
export PYTHONPATH="$RLX_RUN_DIR/payload${PYTHONPATH:+:$PYTHONPATH}"
# Trackers write into the run directory. What the recipe says of them in env or secrets stays.
mkdir -p "$RLX_ATTEMPT_DIR/track"
export TENSORBOARD_DIR="$RLX_ATTEMPT_DIR"/track
export TENSORBOARD_LOGGING_DIR="$RLX_ATTEMPT_DIR"/track
export SWANLAB_MODE=cloud
export SWANLAB_LOG_DIR="$RLX_ATTEMPT_DIR"/track
export SWANLAB_PROJ_NAME=tracked
export SWANLAB_GROUP=tracked
export SWANLAB_JOB_TYPE=control
export SWANLAB_TAGS=arm:control,seed:7,experiment:tracked,run:"$RLX_RUN"
export SWANLAB_INTERACTIVE=false
unset CUDA_VISIBLE_DEVICES

cd "$RLX_RUN_DIR"
"$HOME"/venv/bin/python "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  "$HOME"/tiny/model \
  "$HOME"/tiny/train.parquet \
  '/data/val 2.parquet' \
  || echo "rlx: no record of versions and data" >&2

exec "$HOME"/venv/bin/python -u "$RLX_RUN_DIR/payload/rlx_trl_train.py"
