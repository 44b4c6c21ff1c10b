python -m verl.trainer.main_ppo -m algorithm.adv_estimator=grpo data.train_files=/d/t.parquet data.val_files=/d/v.parquet \
  actor_rollout_ref.model.path=/models/q actor_rollout_ref.rollout.n=4,8 data.train_batch_size=64 \
  "actor_rollout_ref.actor.optim.lr=choice(1e-6,5e-7)" "trainer.logger=[console,file]"
