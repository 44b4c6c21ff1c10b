"""Say what differing packages and arguments of TRL are about; transformers' Trainer is what trains."""

from __future__ import annotations

from rlx.compare.difference_areas import Area, Patterns

FACTS: Patterns = {Area.CODE: ("package trl",)}
OVERRIDES: Patterns = {
    Area.EVALUATION: ("eval_*", "per_device_eval_*", "num_generations_eval"),
    Area.INCIDENTAL: ("logging_*", "log_*", "report_to", "save_*", "dataloader_*", "hub_*", "run_name"),
}
