"""Name the metric of the evaluation after the training (`eval: post`)."""

from __future__ import annotations

POST = "post"
"""Stands for the data source: the rows are one set, wherever they come from."""
POST_PREFIX = f"val-core/{POST}/acc/"
"""What such a name begins with, on any back-end."""


def post_metric(samples: int) -> str:
    """Return the name of the mean accuracy of that many answers, averaged over the rows."""
    return f"{POST_PREFIX}mean@{samples}"


def is_post(metric: str) -> bool:
    return metric.startswith(POST_PREFIX)
