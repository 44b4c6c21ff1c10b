export HCCL_BUFFSIZE=512
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=/d/t.parquet data.val_files=/d/v.parquet \
  actor_rollout_ref.model.path=/models/q actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=4 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 data.train_batch_size=64 trainer.balance_batch=False
