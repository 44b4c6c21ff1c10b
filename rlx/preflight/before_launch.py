"""Ask, in one command before a launch, where runs would lie, and do the cheap part of the doctor beside it."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

from rlx.hosts import Transport
from rlx.hosts.containers.locate import locating, read_container, settle
from rlx.plan import Cmd, Finding, Site
from rlx.preflight.checks import machine_checks
from rlx.preflight.doctor import ask, clock, findings_of
from rlx.preflight.probing import composite
from rlx.preflight.probing.docker import CONTAINER, CONTAINER_FORMAT
from rlx.preflight.probing.examined import Clock, Examined
from rlx.preflight.probing.machine import DISK, MACHINE, TOOLS
from rlx.preflight.probing.npu import DEVICES
from rlx.preflight.probing.probe import Question, script
from rlx.preflight.wanted import Wanted

# Docker may take as long for each of its answers (locate.sh).
_LOCATE_S = 50


def quick(transport: Transport, site: Site) -> tuple[Examined, tuple[Finding, ...], tuple[str, ...]]:
    """Check what can be asked in milliseconds: programs, container, device nodes, room for runs.

    The site in the answer has its container found. Nothing starts Python or npu-smi. Raises HostError, ContainerGone.
    """
    if site.container is None:
        examined = ask(transport, site, Wanted(), [*_HERE, Question(DISK, (site.root,))], _INSIDE)
        return examined, findings_of(examined), ()
    examined, warnings = _ask_and_locate(transport, site)
    return examined, findings_of(examined), warnings


def room(transport: Transport, site: Site) -> tuple[Finding, ...]:
    """Tell whether there is room for runs below the site's root; `transport` leads to where that is."""
    asked = ask(transport, replace(site, container=None), Wanted(), [Question(DISK, (site.root,))], [])
    return tuple(machine_checks.disk(asked))


_HERE = (Question(MACHINE), Question(TOOLS))
_INSIDE = (Question(MACHINE), Question(DEVICES))


def _ask_and_locate(transport: Transport, site: Site) -> tuple[Examined, tuple[str, ...]]:
    """The container is visited once, to find the folder that it shares and to ask what is asked in there."""
    mark = f"rlx-{secrets.token_hex(8)}"
    limit_s = composite.total_limit_s([*_HERE, *_INSIDE]) + _LOCATE_S
    before = time.time()
    done = transport.run(Cmd("sh", "-s", mark), stdin=_script(site, mark).encode(), timeout_s=limit_s)
    after = time.time()
    output = done.out.decode(errors="replace")
    return _read(site, output, mark, clock(composite.times(output, mark), before, after))


def _script(site: Site, mark: str) -> str:
    inside = f"set -- {mark}-inside\n{composite.pack(_INSIDE)}"
    disk = composite.framed(mark, DISK.name, script(DISK.script))
    return composite.pack_beside(locating(site, "try", CONTAINER_FORMAT, inside, disk), "locate", _HERE)


def _read(site: Site, output: str, mark: str, clock: Clock | None) -> tuple[Examined, tuple[str, ...]]:
    answers = composite.frames(output, mark)
    found = composite.outside_frames(answers["locate"].text if "locate" in answers else "", mark)
    located, warnings = settle(site, read_container(site, found))
    # Runs that will lie in the container have no folder of the host that could be full.
    host = composite.read_side([*_HERE, Question(DISK)] if located.container_root else _HERE, answers)
    host = replace(host, facts={**host.facts, CONTAINER.name: CONTAINER.parse(found)})
    inside = composite.read_side(_INSIDE, composite.frames(output, f"{mark}-inside"))
    return Examined(located, Wanted(), host, inside, clock), warnings
