python verl/trainer/nla_main.py --config-name=runs/qwen_7b/rl_grpo
