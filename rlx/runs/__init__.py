"""Launch, query, judge and stop runs. Knows no recipe, no back-end and no log text."""

from rlx.runs.control import Stopped, StopResult, stop, stop_runs
from rlx.runs.copies.answers import items_of, texts_of
from rlx.runs.index.resolve import current_runs, latest_launch, resolve
from rlx.runs.index.run_index import Index
from rlx.runs.launching.launch import Launched, launch
from rlx.runs.launching.shipment import check_plan
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.status.host_queue import Leases, query_leases
from rlx.runs.status.host_report import RunFacts, derive_state
from rlx.runs.status.observation import Observation
from rlx.runs.status.snapshots import Files, Snapshot, take_snapshots

__all__ = [
    "Files",
    "Index",
    "Launched",
    "Leases",
    "Manifest",
    "Observation",
    "RunFacts",
    "RunPaths",
    "RunRef",
    "Snapshot",
    "StopResult",
    "Stopped",
    "check_plan",
    "current_runs",
    "derive_state",
    "items_of",
    "latest_launch",
    "launch",
    "query_leases",
    "read_manifest",
    "resolve",
    "stop",
    "stop_runs",
    "take_snapshots",
    "texts_of",
]
