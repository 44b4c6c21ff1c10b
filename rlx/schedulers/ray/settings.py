"""Describe the settings of a Ray cluster in a host's entry: where its dashboard answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlx.errors import UsageError
from rlx.model import BatchScheduler, Site, from_jsonable, to_jsonable

NAME = "ray"
_ADDRESS = re.compile(r"https?://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?")
_DASHBOARD = "write the address of Ray's dashboard as the head reaches it, such as http://127.0.0.1:8265"


@dataclass(frozen=True, slots=True)
class Ray:
    """`address` is that of the dashboard, as the machine reaches it that ssh leads to."""

    address: str


def address_problem(text: str) -> str:
    """Say what keeps a text from being the address of a dashboard, without showing it where it may hold a password."""
    if "@" in text:
        return f"holds a user or a password, and is stored in plain text; {_DASHBOARD}"
    return "" if _ADDRESS.fullmatch(text) else f"{text!r} is no address of a dashboard; {_DASHBOARD}"


def ray_of(site: Site) -> Ray:
    """Return the settings of a site whose scheduler is Ray. Raises UsageError for what is none, as a plan may hold."""
    ray = from_jsonable(Ray, dict(site.batch.settings if site.batch else {}), NAME)
    if problem := address_problem(ray.address):
        raise UsageError(f"ray.address: {problem}", f"rlx hosts show {site.host} names the file of its entry")
    return ray


def ray_from(settings: Mapping[str, Any]) -> Ray:
    return from_jsonable(Ray, dict(settings), NAME)


def batch_of(ray: Ray) -> BatchScheduler:
    """Return the settings as a host and a site hold them."""
    return BatchScheduler(NAME, to_jsonable(ray))
