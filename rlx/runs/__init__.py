"""What becomes of a plan: launched, queued, watched, stopped. Knows no recipe, no back-end and no log text."""

from rlx.runs.index import Index
from rlx.runs.launch import Launched, launch
from rlx.runs.leases import Leases, look_at_leases
from rlx.runs.manifest import Manifest, read_manifests
from rlx.runs.observe import Observation, observe
from rlx.runs.resolve import current_runs, latest_launch, resolve
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.state import Facts, derive_state
from rlx.runs.stop import Stopped, stop, stop_runs

__all__ = [
    "Facts",
    "Index",
    "Launched",
    "Leases",
    "Manifest",
    "Observation",
    "RunPaths",
    "RunRef",
    "Stopped",
    "current_runs",
    "derive_state",
    "latest_launch",
    "launch",
    "look_at_leases",
    "observe",
    "read_manifests",
    "resolve",
    "stop",
    "stop_runs",
]
