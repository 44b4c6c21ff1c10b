"""Ask a Ray cluster for what a run needs, as the lines of its request that `ray_api.py` reads.

Ray gives the job of a run the devices that it reserves for the job's own process. A trainer that asks Ray for devices
itself must not have them reserved a second time: its job reserves none, and waits on the head until they are free.
"""

from __future__ import annotations

from rlx.errors import UsageError
from rlx.hosts.inventory.host_file import NOT_OF_A_JOB
from rlx.model import LaunchPlan, PlannedFile
from rlx.planning.host_requirements import host_of
from rlx.schedulers.ray.settings import ray_of

GIVES_RAY = True
"""Runs are started inside a Ray that is there, and a trainer that knows Ray joins it."""

RESOURCES = {"npu": "NPU", "cuda": "GPU"}
"""What Ray calls a kind of device."""
_NUMBERS = "leave out --devices, or name how many: Ray chooses the devices of a job"


def options(plan: LaunchPlan) -> list[str]:
    """Return the address, and the devices that the job reserves (`reserves`) or that must be free first (`awaits`)."""
    lines = [f"address={ray_of(plan.site).address}"]
    if joins(plan):
        # The payload's platform of a CPU calls a worker's one GPU, too.
        lines += [f"awaits={RESOURCES.get(plan.device_kind, 'GPU')} {_all_devices(plan)}"] if plan.has_recipe else []
        return [*lines, "joins=yes"]
    if plan.device_kind in RESOURCES:
        lines.append(f"reserves={RESOURCES[plan.device_kind]} {plan.devices}")
    return lines


def files(plan: LaunchPlan) -> tuple[PlannedFile, ...]:
    """Return nothing: the request says all."""
    return ()


def check(plan: LaunchPlan) -> None:
    """Raise UsageError for a run that cannot be a job; a plan may come from a file."""
    site, name = plan.site, plan.run_name
    ray_of(site)
    if site.container is not None or site.job_image is not None:
        fix = "name the host or container in which Ray itself runs as one that ssh reaches, without container and image"
        raise UsageError(f"{name}: {NOT_OF_A_JOB}: a job of Ray runs where Ray runs", fix)
    if plan.device_list:
        raise UsageError(f"{name}: devices are named by their numbers", _NUMBERS)
    if plan.workers or (_nodes(plan) > 1 and not joins(plan)):
        fix = "set layout.nodes: 1, or use a back-end whose trainer joins an existing Ray"
        raise UsageError(f"{name}: {plan.backend} with several nodes brings a Ray of its own", fix)
    if joins(plan) and plan.secret_names:
        names = ", ".join(plan.secret_names)
        message = (
            f"{name}: Ray would store and show what the processes of its workers are given, and so the value of {names}"
        )
        raise UsageError(message, "leave it out: let the tracker log in on the nodes, or write offline")
    if joins(plan) and plan.device_kind != "cpu" and (plan.recipe.get("eval") or {}).get("post"):
        fix = "take eval.post out; rlx eval evaluates the checkpoint afterwards"
        raise UsageError(f"{name}: the evaluation after the training would use devices that Ray does not know of", fix)


def joins(plan: LaunchPlan) -> bool:
    """Return whether the run's trainer joins the cluster and asks for devices itself.

    A script that is given devices has them reserved, and a Ray of its own in them; one without is left to ask.
    """
    return host_of(plan.backend).joins_ray and (plan.has_recipe or plan.device_kind == "cpu")


def _nodes(plan: LaunchPlan) -> int:
    return int(plan.recipe.get("layout", {}).get("nodes") or 1)


def _all_devices(plan: LaunchPlan) -> int:
    devices = plan.recipe.get("layout", {}).get("devices_per_node") or plan.devices
    return int(devices) * _nodes(plan)
