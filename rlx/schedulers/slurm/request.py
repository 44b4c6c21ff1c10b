"""Ask Slurm for what a run needs: the options of its job, as supervise.sh hands them to sbatch, and its container."""

from __future__ import annotations

from rlx.errors import UsageError
from rlx.hosts.inventory.host_file import NOT_OF_A_JOB, OWN_CONTAINER
from rlx.hosts.inventory.image_entry import request_problem
from rlx.model import Image, LaunchPlan, PlannedFile
from rlx.model.run_dir import DOCKER_FILE
from rlx.schedulers.slurm.entry import sbatch_options, slurm_problem
from rlx.schedulers.slurm.settings import Slurm, slurm_of

_NUMBERS = (
    "Slurm chooses the devices of a job: leave out --devices, or name how many; a back-end that takes those from 0 "
    "needs in layout.devices_per_node all that a node has (gres in the host's entry)"
)
_PLAN_AGAIN = "write the plan again"
# Slurm reads both in the name of the file that a job prints to.
_NOT_IN_A_PATH = "%\\"


def files(plan: LaunchPlan) -> tuple[PlannedFile, ...]:
    """Return the file that says of what the job's container is made, where it is in one."""
    image = plan.site.job_image
    return (PlannedFile(DOCKER_FILE, _container(image)),) if image else ()


def _container(image: Image) -> str:
    lines = [f"image {image.name}", *([f"user {image.user}"] if image.user else [])]
    return "\n".join([*lines, *(f"mount {mount}" for mount in image.mounts), ""])


def options(plan: LaunchPlan) -> list[str]:
    """Return the options of sbatch."""
    slurm = slurm_of(plan.site)
    gres = slurm.gres_of(plan.devices) if plan.device_kind != "cpu" else None
    return [
        f"--partition={slurm.partition}",
        *([f"--gres={gres}"] if gres else []),
        f"--nodes={plan.cluster.nodes if plan.cluster else 1}",
        "--ntasks-per-node=1",
        *sbatch_options(slurm),
        # To the script alone: the supervisor in it tells the run, and notes why.
        f"--signal=B:USR1@{slurm.warn}",
    ]


def check(plan: LaunchPlan) -> None:
    """Raise UsageError for a run that cannot be a job; a plan may come from a file."""
    site, slurm = plan.site, slurm_of(plan.site)
    if problem := slurm_problem(slurm) or (site.job_image and request_problem(site.job_image)):
        raise UsageError(f"{plan.run_name}: {problem}", f"rlx hosts show {site.host} names the file of its entry")
    if site.container is not None:
        raise UsageError(f"{plan.run_name}: {NOT_OF_A_JOB}: {site.container}", OWN_CONTAINER)
    if plan.device_list and not _is_whole_node(plan, slurm):
        raise UsageError(f"{plan.run_name}: devices are named by their numbers", _NUMBERS)
    if any(worker.site != site for worker in plan.workers):
        raise UsageError(f"{plan.run_name}: some of its nodes are not of {site.host}", _PLAN_AGAIN)
    if plan.device_kind != "cpu" and slurm.gres is None:
        entry = f"slurm: {{partition: {slurm.partition}, gres: {plan.device_kind}:COUNT}}"
        raise UsageError(f"{plan.run_name} needs {plan.device_kind}, and the entry of {site.host} names no gres", entry)
    if any(character in site.root for character in _NOT_IN_A_PATH):
        raise UsageError(f"the root {site.root!r} has a % or a backslash, which Slurm reads", "choose another root")


def _is_whole_node(plan: LaunchPlan, slurm: Slurm) -> bool:
    """Return whether the numbers are those that a job gets anyway: all of a node."""
    count = slurm.device[1] if slurm.device else 0
    return plan.devices == count and plan.device_list == tuple(range(count))
