#!/bin/bash
export TASK_QUEUE_ENABLE=2
NNODES=1
ray start --head --port 6766 --resources='{"NPU": 16}'
cd /workspace/MindSpeed-RL
python cli/train_grpo.py --config-name grpo_own_7b actor_config.lr=2e-6 | tee logs/training.log
