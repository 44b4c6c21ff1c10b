"""Compare the runs of two or more arms: alignment, statistics, confounders. Never prints."""

from rlx.compare.arms import ComparedArm, ComparedRun, same_seed
from rlx.compare.comparison import compare, outputs_to_read
from rlx.compare.comparison_values import Comparison, Contrast
from rlx.compare.metric import other_sources
from rlx.compare.paired import PairedItems
from rlx.compare.proportions import TwoProportions
from rlx.compare.registered_answer import AnswerKind, ClaimResult, RegisteredResult, RegisteredRun, answer, as_family
from rlx.compare.registered_design import Claim, Design, MultiplicityCorrection
from rlx.compare.registered_question import PrimaryValue, ended_result, objected_result, open_result, primary_values
from rlx.compare.seed_test import WelchSeeds

__all__ = [
    "AnswerKind",
    "Claim",
    "ClaimResult",
    "ComparedArm",
    "ComparedRun",
    "Comparison",
    "Contrast",
    "Design",
    "MultiplicityCorrection",
    "PairedItems",
    "PrimaryValue",
    "RegisteredResult",
    "RegisteredRun",
    "TwoProportions",
    "WelchSeeds",
    "answer",
    "as_family",
    "compare",
    "ended_result",
    "objected_result",
    "open_result",
    "other_sources",
    "outputs_to_read",
    "primary_values",
    "same_seed",
]
