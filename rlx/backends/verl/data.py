"""The tables that verl reads.

Source: verl/utils/dataset/rl_dataset.py, workers/reward_manager and utils/reward_score, 0.6 to 0.9.
"""

from __future__ import annotations

from rlx.planning.data_files import Gsm8kForm, NamedReward, TableForm

TABLES = TableForm(
    name="verl",
    rewards={"gsm8k": NamedReward("openai/gsm8k", r"-?[0-9.]+")},
    prompts="verl needs [{role: user, content: text}]: rlx data gsm8k writes it",
    truths="verl's reward reads reward_model: {style: rule, ground_truth: text}: rlx data gsm8k writes it",
)
GSM8K = Gsm8kForm(
    help={
        "form": "the column of the chat; messages has the whole answer beside it.",
        "instruction": "what is added to each question; empty: nothing.",
    }
)
