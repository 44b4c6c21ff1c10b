"""The colours of states and verdicts, the same in every table of runs."""

from __future__ import annotations

STATE_STYLE = {"finished": "green", "running": "cyan", "starting": "cyan", "failed": "red", "lost": "red"} | {
    "unreachable": "yellow",
    "stalled": "yellow",
    "removed": "dim",
}
VERDICT_STYLE = {"valid": "green", "on track": "green", "contradicted": "red", "invalid": "red"} | {
    "incomplete": "red",
    "cannot become valid": "red",
    "contradicted so far": "red",
}
