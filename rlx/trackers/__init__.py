"""Write runs in the formats of experiment trackers: one module per tracker, which uses its own package only."""

from rlx.trackers.exported_run import ExportedRun, MetricPoint
from rlx.trackers.tracker_table import TRACKERS, Tracker, tracker_of

__all__ = ["TRACKERS", "ExportedRun", "MetricPoint", "Tracker", "tracker_of"]
