"""The cheap part of `rlx doctor`, before each launch to another machine or into a container."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import ExitCode, RlxError
from rlx.plan import Severity

if TYPE_CHECKING:
    from rlx.plan import Finding, Site


@contextmanager
def checked_host(site: Site) -> Iterator[None]:
    """Asks the host while the block plans, so that it costs no time of its own.

    Tells warnings. Raises RlxError (exit 5) with all errors, or HostError.
    """
    if site.place.is_local and site.container is None:
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(_findings, site)
        yield
        _tell(looking.result())


def _findings(site: Site) -> tuple[Finding, ...]:
    from rlx.hosts import transport_for
    from rlx.preflight.doctor import quick

    _, findings = quick(transport_for(replace(site.place, inside=None)), site)
    return findings


def _tell(findings: tuple[Finding, ...]) -> None:
    from rlx.cli.output import narrate
    from rlx.cli.planning import finding_text

    for finding in findings:
        if finding.severity is Severity.WARNING:
            narrate(f"rlx: {finding_text(finding)}")
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        texts = "\n".join(finding_text(finding) for finding in errors)
        raise RlxError(texts, "rlx doctor HOST shows all that is known of the host", ExitCode.PREFLIGHT_FAILED)
