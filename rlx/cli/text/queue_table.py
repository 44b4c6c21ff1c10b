"""The tables of queues, and the names of their runs in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from rlx.table import Column, Table

_STAMP = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}(?=$|-node)")
_RANKS = {"WHERE": 3, "OWNER": 2, "FOR": 1}
_FLOWING = {"ENDS", "STARTS", "BEHIND", "WHY"}


def queue_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Where and whose can be done without, then since when; what is to come, and why, may take several lines."""
    return Table(
        [
            Column(heading, cells, rank=_RANKS.get(heading, 0), flows=heading in _FLOWING)
            for heading, *cells in zip(headings, *rows, strict=True)
        ]
    )


def short_names(run_ids: Sequence[str]) -> Mapping[str, str]:
    """Run id -> its name without the stamp, where that is nobody else's here."""
    short = {run_id: _STAMP.sub("", run_id) for run_id in run_ids}
    used = Counter(short.values())
    return {run_id: name if used[name] == 1 else run_id for run_id, name in short.items()}
