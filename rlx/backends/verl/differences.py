"""Say what differing keys and packages of verl are about, because a comparison shows what moves the result first."""

from __future__ import annotations

from rlx.compare.difference_areas import Area, Patterns

FACTS: Patterns = {Area.CODE: ("package verl",)}
OVERRIDES: Patterns = {
    Area.EVALUATION: ("*.val_kwargs.*", "trainer.val_*", "trainer.test_freq", "data.val_*"),
    Area.LAYOUT: (
        "*max_token_len_per_gpu",
        "*use_dynamic_bsz",
        "trainer.nnodes",
        "trainer.n_gpus_per_node",
        "trainer.device",
    ),
    Area.DATA: ("data.*",),
    Area.TRAINING: ("trainer.total_*", "trainer.critic_warmup", "trainer.resume_*"),
    Area.INCIDENTAL: ("trainer.*", "global_profiler.*", "hydra.*"),
}
