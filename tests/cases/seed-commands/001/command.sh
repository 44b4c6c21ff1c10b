export HYDRA_FULL_ERROR=1
export TASK_QUEUE_ENABLE=2
export HCCL_IF_BASE_PORT=24703
export LD_PRELOAD=/usr/lib/aarch64-linux-gnu/libjemalloc.so.2
export MALLOC_MMAP_THRESHOLD_=512768
export PYTHONPATH=/usr/local/Ascend/ascend-toolkit/8.3.RC1/python/site-packages:$PYTHONPATH
cd /workspace/MindSpeed-RL
python cli/train_grpo.py \
  --config-name mindspeed_rl_grpo_qwen3_30b_a3b_lora_12npu \
  2>&1 | tee logs/training_qwen3_30b_a3b_lora.log
