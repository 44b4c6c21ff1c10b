"""What two or more judged runs say about each other: alignment by step, statistics, confounders. Never prints."""

from rlx.compare.comparison import compare
from rlx.compare.values import ComparedRun, Comparison, Contrast

__all__ = ["ComparedRun", "Comparison", "Contrast", "compare"]
