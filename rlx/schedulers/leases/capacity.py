"""Ask a host who has its devices, and who waits for them."""

from __future__ import annotations

from rlx.model import Place, Site
from rlx.runs import Leases, query_leases


def capacity(place: Place, site: Site) -> Leases:
    """Return the leases of the host, in one round trip. Raises HostError."""
    return query_leases(place, site.leases)
