"""Look at the host of a launch in one round trip: where runs would lie, and what a run would lack there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlx.hosts import Transport
from rlx.hosts.clock import compare_clocks
from rlx.hosts.containers.locate import locating, read_container, settle
from rlx.model import Cmd, Finding, Site
from rlx.planning.checks import machine_checks
from rlx.planning.checks.docker_checks import reachable
from rlx.planning.doctor import ask, entry_problem, environment_questions, findings_of, host_questions
from rlx.planning.probing import composite
from rlx.planning.probing.docker import CONTAINER, CONTAINER_FORMAT
from rlx.planning.probing.examined import Examined
from rlx.planning.probing.machine import DISK, MACHINE, TOOLS
from rlx.planning.probing.npu import DEVICES
from rlx.planning.probing.probe import Question, Side, script
from rlx.planning.wanted import Wanted

# Docker may take as long for each of its answers (locate.sh).
_LOCATE_S = 50
_Questions = Sequence[Question]


@dataclass(frozen=True, slots=True)
class HostLook:
    """What a look at one host found. The site in `examined` has its container found; `warnings` tell of its folders."""

    examined: Examined
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()


def look(transport: Transport, site: Site, wanted: Wanted, *, is_node: bool = False) -> HostLook:
    """Ask the host all that the recipe depends on; where none is named, programs, devices and room only.

    `transport` leads to the host itself, also for a site with a container; `is_node`: of a run on several hosts.
    Raises HostError, ContainerGone.
    """
    host, inside = _questions(site, wanted)
    warnings: tuple[str, ...] = ()
    if site.container is None:
        examined = ask(transport, site, wanted, host, inside)
    else:
        examined, warnings = _ask_and_locate(transport, site, wanted, host, inside)
    findings = findings_of(examined)
    return HostLook(examined, (*findings, *(reachable(examined) if is_node else ())), warnings)


def room(transport: Transport, site: Site) -> tuple[Finding, ...]:
    """Tell whether there is room for runs below the site's root; `transport` leads to where that is."""
    asked = ask(transport, replace(site, container=None), Wanted(), [Question(DISK, (site.root,))], [])
    return tuple(machine_checks.disk(asked))


def _questions(site: Site, wanted: Wanted) -> tuple[_Questions, _Questions]:
    """For the host and for where the run would train."""
    if site.batch is not None and wanted.backend is None:
        return host_questions(site), []
    if wanted.backend is not None:
        return host_questions(site), environment_questions(site, wanted)
    return [Question(MACHINE), Question(TOOLS), Question(DISK, (site.root,))], [Question(MACHINE), Question(DEVICES)]


def _ask_and_locate(
    transport: Transport, site: Site, wanted: Wanted, host: _Questions, inside: _Questions
) -> tuple[Examined, tuple[str, ...]]:
    """The folder that the container shares is found while the probes are asked."""
    # Room is asked for where the runs will lie, and what docker tells of the container comes with its folder.
    (folders,) = (question.arguments for question in host if question.probe == DISK)
    host = [question for question in host if question.probe not in (DISK, CONTAINER)]
    mark = f"rlx-{secrets.token_hex(8)}"
    packed = composite.pack_beside(_locating(site, mark, folders[1:]), "locate", host, site.container or "", inside)
    limit_s = composite.total_limit_s([*host, *inside]) + _LOCATE_S
    before = time.time()
    done = transport.run(Cmd("sh", "-s", mark), stdin=packed.encode(), timeout_s=limit_s)
    after = time.time()
    output = done.out.decode(errors="replace")
    off = compare_clocks(composite.times(output, mark), before, after)
    answered = composite.read_side(host, composite.frames(output, mark))
    seen = Examined(site, wanted, answered, _inside(inside, output, mark), off)
    return _settled(seen, output, mark)


def _locating(site: Site, mark: str, folders: Sequence[str]) -> Cmd:
    ask_room = Cmd("set", "--").raw() + ' "$1" ' + " ".join(Cmd(folder).raw() for folder in folders)
    disk = composite.framed(mark, DISK.name, f"{ask_room}\n{script(DISK.script)}")
    return locating(site, "try", CONTAINER_FORMAT, "", disk)


def _inside(asked: _Questions, output: str, mark: str) -> Side | None:
    """None: the container could not be entered."""
    answers = composite.frames(output, f"{mark}-inside")
    return composite.read_side(asked, answers) if answers else None


def _settled(seen: Examined, output: str, mark: str) -> tuple[Examined, tuple[str, ...]]:
    """With what docker said of the container. Raises ContainerGone for one that cannot be used."""
    answers = composite.frames(output, mark)
    found = composite.outside_frames(answers["locate"].text if "locate" in answers else "", mark)
    site, warnings = settle(seen.site, read_container(seen.site, found))
    # Runs that will lie in the container have no folder of the host that could be full.
    disk = composite.read_side([Question(DISK)], answers) if site.container_root else Side()
    facts = {**seen.host.facts, **disk.facts, CONTAINER.name: CONTAINER.parse(found)}
    host = Side(facts, {**seen.host.silent, **disk.silent})
    return replace(seen, site=site, host=host, entry=entry_problem(answers.get("enter"))), warnings
