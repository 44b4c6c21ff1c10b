"""Ask nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlx.model import Finding, Site


def questions(site: Site) -> list[Any]:
    return []


def findings(examined: Any) -> Iterator[Finding]:
    return iter(())


def rows(examined: Any) -> Iterator[tuple[str, str]]:
    yield "queue", examined.site.batch.settings["queue"]
