tmux new-session -d -s math_training \
  'docker exec -i verl-a3cloud bash -c "cd /verl && \
   python3 -m verl.trainer.main_ppo \
   --config-path /tmp \
   --config-name qwen15_moe_gsm8k_grpo_npu \
   2>&1 | tee /tmp/math_training.log"'
