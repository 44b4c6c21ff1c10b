"""Write runs in the form of other tools that show curves: one module a tracker, each knows its own package alone."""

from rlx.trackers.exported_run import ExportedRun, Point
from rlx.trackers.tracker_table import TRACKERS, Tracker, tracker_of

__all__ = ["TRACKERS", "ExportedRun", "Point", "Tracker", "tracker_of"]
