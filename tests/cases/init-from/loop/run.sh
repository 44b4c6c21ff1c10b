for lr in 1e-6 5e-7; do
  for seed in 1 2; do
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=/d/t.parquet data.val_files=/d/v.parquet \
      actor_rollout_ref.model.path=/models/q actor_rollout_ref.rollout.n=8 data.train_batch_size=64 \
      actor_rollout_ref.actor.optim.lr=$lr data.seed=$seed trainer.experiment_name=lr${lr}-s$seed
  done
done
