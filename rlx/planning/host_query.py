"""Query a site: send all probes in one round trip, and turn the answers into findings."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rlx.hosts import Transport
from rlx.hosts.clock import Clock, compare_clocks
from rlx.hosts.containers.locate import locating, read_container, settle
from rlx.model import Cmd, Finding, Severity, Site
from rlx.planning.host_requirements import HostRequirements, package_arguments
from rlx.planning.probing import composite, docker, machine, npu, training_environment
from rlx.planning.probing.docker import CONTAINER, CONTAINER_FORMAT, DOCKER, reachable
from rlx.planning.probing.machine import DISK, MACHINE, PROCESSES, TOOLS
from rlx.planning.probing.npu import ASCEND, DEVICES, NPU_SMI
from rlx.planning.probing.probe import ProbeResults, Question, Side, last_line, script
from rlx.planning.probing.training_environment import (
    ACCELERATOR,
    OVERLAP,
    PACKAGES,
    PATHS,
    overlap_arguments,
    python_question,
)
from rlx.schedulers.protocol import login_node_of

_Questions = Sequence[Question]
_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
# Time that docker may take for each of its answers (locate.sh).
_LOCATE_S = 50
_CHECKS: tuple[Callable[[ProbeResults], Iterator[Finding]], ...] = (
    docker.docker,
    docker.container,
    machine.tools,
    machine.disk,
    machine.clock,
    machine.memory_and_cpus,
    machine.processes,
    npu.table,
    npu.devices,
    npu.declared,
    npu.health,
    npu.holders,
    npu.image,
    npu.python,
    training_environment.python,
    training_environment.backend,
    training_environment.trackers,
    training_environment.versions,
    training_environment.files,
    training_environment.overlap,
    machine.silence,
)
# A login node trains nothing: its CPUs, memory and devices are not those of a job.
_CHECKS_OF_A_LOGIN_NODE: tuple[Callable[[ProbeResults], Iterator[Finding]], ...] = (
    machine.tools,
    machine.disk,
    machine.clock,
    training_environment.python,
    training_environment.backend,
    training_environment.trackers,
    training_environment.versions,
    training_environment.files,
    training_environment.overlap,
    machine.silence,
)


@dataclass(frozen=True, slots=True)
class QueriedHost:
    """The result of one query. The site in `results` has its container located; `warnings` concern its folders."""

    results: ProbeResults
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()


def query_host(transport: Transport, site: Site, wanted: HostRequirements, *, is_node: bool = False) -> QueriedHost:
    """Query the host for all that the recipe depends on; without a recipe, for programs, devices and free space only.

    `transport` leads to the host itself, also for a site with a container. `is_node`: the run has several hosts.
    Raises HostError, ContainerGone.
    """
    host, inside = _questions(site, wanted)
    warnings: tuple[str, ...] = ()
    if site.container is None:
        results = ask(transport, site, wanted, host, inside)
    else:
        results, warnings = _ask_and_locate(transport, site, wanted, host, inside)
    findings = findings_of(results)
    return QueriedHost(results, (*findings, *(reachable(results) if is_node else ())), warnings)


def check_space(transport: Transport, site: Site) -> tuple[Finding, ...]:
    """Report missing space for runs below the site's root; `transport` leads to the place of the root."""
    asked = ask(transport, replace(site, container=None), HostRequirements(), [Question(DISK, (site.root,))], [])
    return tuple(machine.disk(asked))


def query_site(transport: Transport, site: Site, wanted: HostRequirements | None = None) -> ProbeResults:
    """Query the site with all probes in one round trip. Writes nothing there. Raises HostError.

    `transport` leads to the host itself, also for a site with a container.
    """
    wanted = wanted or HostRequirements()
    return ask(transport, site, wanted, host_questions(site), environment_questions(site, wanted))


def findings_of(results: ProbeResults) -> tuple[Finding, ...]:
    """Return the findings of all checks, the most severe first."""
    batch = results.site.batch
    checks = (login_node_of(batch).findings, *_CHECKS_OF_A_LOGIN_NODE) if batch else _CHECKS
    found = [finding for check in checks for finding in check(results)]
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
        Question(DOCKER),
        *([Question(CONTAINER, (site.container, CONTAINER_FORMAT))] if site.container else []),
        Question(DEVICES),
        Question(NPU_SMI),
        Question(ASCEND),
    ]


def environment_questions(site: Site, wanted: HostRequirements) -> list[Question]:
    """Return the questions for the place where the run would train. A container repeats those to the host.

    Empty where a job makes the container: the login node has neither its packages nor its files.
    """
    if site.job_image is not None:
        return []
    files = [text for file in wanted.files for text in (file.role, file.path)]
    # Loading torch_npu takes seconds, and only NPUs need it.
    on_npus = wanted.device in (None, "npu") and site.batch is None
    of_run = [
        python_question(
            PACKAGES, "packages.py", site, wanted.python, wanted.workdir, *package_arguments(), *wanted.trackers
        ),
        *([python_question(ACCELERATOR, "accelerator.py", site, wanted.python, wanted.workdir)] if on_npus else []),
    ]
    reader = wanted.python if wanted.may_start else HostRequirements().python
    site_of_files = replace(site, env={**site.env, **dict(wanted.env)})
    inside = [
        *(of_run if wanted.may_start else []),
        *([python_question(PATHS, "paths.py", site_of_files, reader, wanted.workdir, *files)] if files else []),
        *(
            [python_question(OVERLAP, "overlap.py", site, reader, wanted.workdir, *overlap_arguments(wanted.pairs))]
            if wanted.pairs
            else []
        ),
    ]
    if site.container is None:
        return inside
    folders = ("/tmp", *([site.container_root] if site.container_root else []))
    again = [Question(probe) for probe in (MACHINE, TOOLS, PROCESSES, DEVICES, NPU_SMI, ASCEND)]
    return [*again, Question(DISK, folders), *inside]


def ask(
    transport: Transport,
    site: Site,
    wanted: HostRequirements,
    host: Sequence[Question],
    environment: Sequence[Question],
) -> ProbeResults:
    """Send these questions to the host and to the environment of its runs. Raises HostError."""
    if site.container is None:
        # The same probe twice would give the same answer.
        host = [*host, *(question for question in environment if question.probe not in {q.probe for q in host})]
        environment = []
    mark = f"rlx-{secrets.token_hex(8)}"
    packed = composite.pack(host, site.container, environment)
    output, clock = _send(transport, packed, mark, composite.total_limit_s([*host, *environment]))
    answers = composite.frames(output, mark)
    within = composite.frames(output, f"{mark}-inside")
    return ProbeResults(
        site,
        wanted,
        host=composite.read_side(host, answers),
        inside=composite.read_side(environment, within) if within else None,
        clock=clock,
        entry=entry_problem(answers.get("enter")),
    )


def _send(transport: Transport, packed: str, mark: str, limit_s: int) -> tuple[str, Clock | None]:
    """Run a packed script there, and return its output and the clock of the host."""
    before = time.time()
    done = transport.run(Cmd("sh", "-s", mark), stdin=packed.encode(), timeout_s=limit_s)
    after = time.time()
    output = done.out.decode(errors="replace")
    return output, compare_clocks(composite.times(output, mark), before, after)


def entry_problem(frame: composite.ProbeAnswer | None) -> str | None:
    """Return why the container could not be entered, as far as docker reports it."""
    if frame is None:
        return None
    return last_line(frame.text) if frame.answered else "docker exec gave no answer in time"


def _questions(site: Site, wanted: HostRequirements) -> tuple[_Questions, _Questions]:
    """Return the questions for the host, and those for the place where the run would train."""
    if site.batch is not None and wanted.backend is None:
        return host_questions(site), []
    if wanted.backend is not None:
        return host_questions(site), environment_questions(site, wanted)
    shell = machine.shell_question(site)
    host = [Question(MACHINE), Question(TOOLS), Question(DISK, (site.root,))]
    return host, [Question(MACHINE), Question(DEVICES), shell]


def _ask_and_locate(
    transport: Transport, site: Site, wanted: HostRequirements, host: _Questions, inside: _Questions
) -> tuple[ProbeResults, tuple[str, ...]]:
    """Locate the folder that the container shares with its host while the probes run."""
    # Free space is measured where the runs will be; the facts of the container come with its folder.
    (folders,) = (question.arguments for question in host if question.probe == DISK)
    host = [question for question in host if question.probe not in (DISK, CONTAINER)]
    mark = f"rlx-{secrets.token_hex(8)}"
    packed = composite.pack_beside(_locating(site, mark, folders[1:]), "locate", host, site.container or "", inside)
    output, clock = _send(transport, packed, mark, composite.total_limit_s([*host, *inside]) + _LOCATE_S)
    answered = composite.read_side(host, composite.frames(output, mark))
    within = composite.frames(output, f"{mark}-inside")
    entered = composite.read_side(inside, within) if within else None
    return _settled(ProbeResults(site, wanted, answered, entered, clock), output, mark)


def _locating(site: Site, mark: str, folders: Sequence[str]) -> Cmd:
    ask_room = Cmd("set", "--").raw() + ' "$1" ' + " ".join(Cmd(folder).raw() for folder in folders)
    disk = composite.framed(mark, DISK.name, f"{ask_room}\n{script(DISK.script)}")
    return locating(site, "try", CONTAINER_FORMAT, "", disk)


def _settled(seen: ProbeResults, output: str, mark: str) -> tuple[ProbeResults, tuple[str, ...]]:
    """Add the container that docker reports. Raises ContainerGone for one that cannot be used."""
    answers = composite.frames(output, mark)
    found = composite.outside_frames(answers["locate"].text if "locate" in answers else "", mark)
    site, warnings = settle(seen.site, read_container(seen.site, found))
    # Runs inside the container use no folder of the host that could be full.
    disk = composite.read_side([Question(DISK)], answers) if site.container_root else Side()
    facts = {**seen.host.facts, **disk.facts, CONTAINER.name: CONTAINER.parse(found)}
    host = Side(facts, {**seen.host.silent, **disk.silent})
    return replace(seen, site=site, host=host, entry=entry_problem(answers.get("enter"))), warnings
