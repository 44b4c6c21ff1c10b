"""One look at a site: all probes in one round trip, and what is to be said about the answers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from rlx.hosts import Transport
from rlx.hosts.clock import compare_clocks
from rlx.model import Cmd, Finding, Severity, Site
from rlx.planning.checks import docker_checks, environment_checks, machine_checks, npu_checks
from rlx.planning.probing import composite
from rlx.planning.probing.docker import CONTAINER, CONTAINER_FORMAT, DOCKER
from rlx.planning.probing.examined import Examined
from rlx.planning.probing.machine import DISK, MACHINE, PROCESSES, TOOLS
from rlx.planning.probing.npu import ASCEND, DEVICES, NPU_SMI
from rlx.planning.probing.probe import Question, last_line
from rlx.planning.probing.training_environment import (
    ACCELERATOR,
    OVERLAP,
    PACKAGES,
    PATHS,
    overlap_arguments,
    python_question,
)
from rlx.planning.wanted import Wanted, package_arguments
from rlx.schedulers.protocol import login_node_of

_CHECKS: tuple[Callable[[Examined], Iterator[Finding]], ...] = (
    docker_checks.docker,
    docker_checks.container,
    machine_checks.tools,
    machine_checks.disk,
    machine_checks.clock,
    machine_checks.memory_and_cpus,
    machine_checks.processes,
    npu_checks.table,
    npu_checks.devices,
    npu_checks.health,
    npu_checks.holders,
    npu_checks.image,
    npu_checks.python,
    environment_checks.python,
    environment_checks.backend,
    environment_checks.trackers,
    environment_checks.versions,
    environment_checks.files,
    environment_checks.overlap,
    machine_checks.silence,
)
# A login node trains nothing: its CPUs, memory and devices are not those of a job.
_CHECKS_OF_A_LOGIN_NODE: tuple[Callable[[Examined], Iterator[Finding]], ...] = (
    machine_checks.tools,
    machine_checks.disk,
    machine_checks.clock,
    environment_checks.python,
    environment_checks.backend,
    environment_checks.trackers,
    environment_checks.versions,
    environment_checks.files,
    environment_checks.overlap,
    machine_checks.silence,
)
_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def examine(transport: Transport, site: Site, wanted: Wanted | None = None) -> Examined:
    """Asks the site everything, in one round trip. Nothing is written there. Raises HostError.

    `transport` leads to the host itself, also for a site with a container.
    """
    wanted = wanted or Wanted()
    return ask(transport, site, wanted, host_questions(site), environment_questions(site, wanted))


def findings_of(examined: Examined) -> tuple[Finding, ...]:
    """Collect what is to be said, the worst first."""
    batch = examined.site.batch
    checks = (login_node_of(batch).findings, *_CHECKS_OF_A_LOGIN_NODE) if batch else _CHECKS
    found = [finding for check in checks for finding in check(examined)]
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))


def host_questions(site: Site) -> list[Question]:
    if site.batch is not None:
        own = login_node_of(site.batch).questions(site)
        return [Question(MACHINE), Question(TOOLS), Question(DISK, (site.root,)), *own]
    return [
        Question(MACHINE),
        Question(TOOLS),
        Question(DISK, tuple(dict.fromkeys((site.root, "/tmp", site.leases)))),
        Question(PROCESSES),
        *_docker_questions(site),
        Question(DEVICES),
        Question(NPU_SMI),
        Question(ASCEND),
    ]


def _docker_questions(site: Site) -> list[Question]:
    return [Question(DOCKER), *_container_questions(site)]


def _container_questions(site: Site) -> list[Question]:
    return [Question(CONTAINER, (site.container, CONTAINER_FORMAT))] if site.container else []


def environment_questions(site: Site, wanted: Wanted) -> list[Question]:
    """Write the questions for where the run would train; in a container, those to the host come again.

    None where a job makes the container: the login node has neither its packages nor its files.
    """
    if site.job_image is not None:
        return []
    files = [text for file in wanted.files for text in (file.role, file.path)]
    # To load torch_npu takes seconds, and no other device cares.
    on_npus = wanted.device in (None, "npu") and site.batch is None
    of_run = [
        python_question(
            PACKAGES, "packages.py", site, wanted.python, wanted.workdir, *package_arguments(), *wanted.trackers
        ),
        *([python_question(ACCELERATOR, "accelerator.py", site, wanted.python, wanted.workdir)] if on_npus else []),
    ]
    reader = wanted.python if wanted.may_start else Wanted().python
    inside = [
        *(of_run if wanted.may_start else []),
        *([python_question(PATHS, "paths.py", site, reader, wanted.workdir, *files)] if files else []),
        *([_overlap_question(site, wanted, reader)] if wanted.pairs else []),
    ]
    if site.container is None:
        return inside
    folders = ("/tmp", *([site.container_root] if site.container_root else []))
    again = [Question(probe) for probe in (MACHINE, TOOLS, PROCESSES, DEVICES, NPU_SMI, ASCEND)]
    return [*again, Question(DISK, folders), *inside]


def _overlap_question(site: Site, wanted: Wanted, reader: str) -> Question:
    return python_question(OVERLAP, "overlap.py", site, reader, wanted.workdir, *overlap_arguments(wanted.pairs))


def ask(
    transport: Transport, site: Site, wanted: Wanted, host: Sequence[Question], environment: Sequence[Question]
) -> Examined:
    """Puts these questions to the host, and to the environment of its runs. Raises HostError."""
    if site.container is None:
        # The same probe twice would tell the same.
        host = [*host, *(question for question in environment if question.probe not in {q.probe for q in host})]
        environment = []
    mark = f"rlx-{secrets.token_hex(8)}"
    script = composite.pack(host, site.container, environment)
    limit = composite.total_limit_s([*host, *environment])
    before = time.time()
    done = transport.run(Cmd("sh", "-s", mark), stdin=script.encode(), timeout_s=limit)
    after = time.time()
    output = done.out.decode(errors="replace")
    answers = composite.frames(output, mark)
    within = composite.frames(output, f"{mark}-inside")
    entered = answers.get("enter")
    return Examined(
        site,
        wanted,
        host=composite.read_side(host, answers),
        inside=composite.read_side(environment, within) if within else None,
        clock=compare_clocks(composite.times(output, mark), before, after),
        entry=entry_problem(entered),
    )


def entry_problem(frame: composite.Frame | None) -> str | None:
    """Say why the container could not be entered, as far as docker said so."""
    if frame is None:
        return None
    return last_line(frame.text) if frame.answered else "docker exec gave no answer in time"


def has_errors(findings: Sequence[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)
