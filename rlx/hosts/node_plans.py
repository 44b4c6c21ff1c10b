"""Make one plan from the plans of its nodes, each made for its own host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rlx.model import Cluster, Finding, LaunchPlan, Severity
from rlx.schedulers.protocol import gives_ray

_SEVERAL_HOSTS = "rlx launch RECIPE --host HEAD,OTHER names a host for each node"
_SPREAD = (
    "--spread deals whole runs to the hosts, each seed with all its arms to one; --nodes makes every run one of "
    "several nodes, as many as layout.nodes says"
)


def as_nodes(plans: Sequence[LaunchPlan], nodes: int) -> LaunchPlan:
    """Return the first plan, with the others as its workers and with all findings.

    `nodes` is what the recipe asks for. As many hosts, and an address of the head, are needed to launch it; a login
    node alone, whose jobs have as many nodes as they ask for. Inside a Ray that is there, the trainer asks that for
    them.
    """
    of_hosts = [*_findings(plans, nodes), *_other_images(plans)]
    is_job = plans[0].site.batch is not None
    if is_job and len(plans) == 1 and not gives_ray(plans[0].site.batch):
        plans = [plans[0]] * nodes
    head, *others = plans
    own = (finding for plan in plans for finding in plan.findings)
    findings = tuple(dict.fromkeys((*of_hosts, *own)))
    if not others:
        return replace(head, findings=findings)
    # Where its head will be, the scheduler decides.
    address = "" if is_job else head.site.address or ""
    workers = [
        replace(plan, cluster=Cluster(node, len(plans), address), findings=()) for node, plan in enumerate(others, 1)
    ]
    return replace(head, cluster=Cluster(0, len(plans), address), workers=tuple(workers), findings=findings)


def _findings(plans: Sequence[LaunchPlan], nodes: int) -> Iterator[Finding]:
    head, hosts = plans[0], len(plans)
    if batch := next((plan.site.host for plan in plans if plan.site.batch is not None), None):
        if hosts > 1:
            message = f"{batch} is a login node, whose scheduler gives a run all of its nodes, and {_named(hosts)}"
            yield Finding("RLX503", Severity.ERROR, message, f"rlx launch RECIPE --host {batch}", "layout.nodes")
    elif nodes != hosts:
        message = f"the recipe needs {nodes} node{'s' * (nodes != 1)}, and {_named(hosts)}"
        fix = _SPREAD if nodes == 1 else f"change layout.nodes; {_SEVERAL_HOSTS}"
        yield Finding("RLX503", Severity.ERROR, message, fix, "layout.nodes")
    elif hosts > 1 and head.site.address is None:
        message = f"the address by which other nodes reach {head.site.host}, the head, is not given"
        fix = f"write address: ADDRESS into its entry (rlx hosts show {head.site.host} names the file)"
        yield Finding("RLX504", Severity.ERROR, message, fix)


def _other_images(plans: Sequence[LaunchPlan]) -> Iterator[Finding]:
    head = plans[0].site
    for site in (plan.site for plan in plans[1:]):
        if (site.container is None) != (head.container is None) or site.image != head.image:
            message = f"{site.host} runs another image than {head.host}, the head; keys were checked against the head's"
            yield Finding("RLX505", Severity.WARNING, message, "use containers of one image on all nodes")


def _named(hosts: int) -> str:
    return "one host is named" if hosts == 1 else f"{hosts} hosts are named"
