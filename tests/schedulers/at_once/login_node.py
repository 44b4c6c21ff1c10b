"""Ask nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlx.model import Finding, Site


def questions(site: Site) -> list[Any]:
    return []


def findings(results: Any) -> Iterator[Finding]:
    return iter(())


def rows(results: Any) -> Iterator[tuple[str, str]]:
    yield "queue", results.site.batch.settings["queue"]
