"""What becomes of a plan: launched, queued, watched, stopped. Knows no recipe, no back-end and no log text."""

from rlx.runs.index import Index
from rlx.runs.items import items_of
from rlx.runs.launch import Launched, launch
from rlx.runs.leases import Leases, look_at_leases
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.observe import Observation, observe
from rlx.runs.resolve import current_runs, latest_launch, resolve
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.state import Facts, derive_state
from rlx.runs.stop import Stopped, StopResult, stop, stop_runs

__all__ = [
    "Facts",
    "Index",
    "Launched",
    "Leases",
    "Manifest",
    "Observation",
    "RunPaths",
    "RunRef",
    "StopResult",
    "Stopped",
    "current_runs",
    "derive_state",
    "items_of",
    "latest_launch",
    "launch",
    "look_at_leases",
    "observe",
    "read_manifest",
    "resolve",
    "stop",
    "stop_runs",
]
