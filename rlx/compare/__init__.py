"""Compare the runs of two or more arms: alignment, statistics, confounders. Never prints."""

from rlx.compare.checkpoints import outputs_to_read
from rlx.compare.compared_arms import ComparedArm, ComparedRun, same_seed
from rlx.compare.comparison import compare
from rlx.compare.comparison_values import Comparison, Contrast
from rlx.compare.metric import other_sources
from rlx.compare.paired import PairedItems
from rlx.compare.primary_value import PrimaryValue, primary_values
from rlx.compare.proportions import TwoProportions
from rlx.compare.registered_answer import Answer, Kind, answer, as_family
from rlx.compare.registered_design import Claim, Correction, Design
from rlx.compare.seed_test import WelchSeeds

__all__ = [
    "Answer",
    "Claim",
    "ComparedArm",
    "ComparedRun",
    "Comparison",
    "Contrast",
    "Correction",
    "Design",
    "Kind",
    "PairedItems",
    "PrimaryValue",
    "TwoProportions",
    "WelchSeeds",
    "answer",
    "as_family",
    "compare",
    "other_sources",
    "outputs_to_read",
    "primary_values",
    "same_seed",
]
