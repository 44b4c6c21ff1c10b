"""Keep what this machine knows of a run without its host: the digest of its manifest, and its container.

Host and container can rewrite every file of a run directory. These are from the launch, or from the inventory.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS promises("
    " run_id TEXT NOT NULL, manifest TEXT NOT NULL, container TEXT NOT NULL, PRIMARY KEY (run_id, manifest))"
)

CONTAINER = "coalesce((SELECT max(container) FROM promises WHERE promises.run_id = runs.run_id), '')"
"""A column of a query on runs: the id of the container that a run shares its folder with; empty without."""


def manifest_digest(text: str) -> str:
    """Sha256 of a manifest as it can be read anywhere: bytes that are no text count alike."""
    readable = text.encode(errors="surrogateescape").decode(errors="replace")
    return hashlib.sha256(readable.encode()).hexdigest()


def note(db: sqlite3.Connection, rows: Iterable[tuple[str, str, str]]) -> None:
    """Keep run id, digest of the manifest (empty: not known) and container (empty: none) of these."""
    db.executemany("INSERT OR IGNORE INTO promises VALUES (?, ?, ?)", rows)


def read_digests(db: sqlite3.Connection, run_ids: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """The digests of the manifests that were sent for these runs; more than one if two versions of rlx sent them."""
    wanted = set(run_ids)
    found: dict[str, frozenset[str]] = {}
    for run_id, digest in db.execute("SELECT run_id, manifest FROM promises WHERE manifest != ''"):
        if run_id in wanted:
            found[run_id] = found.get(run_id, frozenset()) | {digest}
    return found
