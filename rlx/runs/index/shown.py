"""Reads what the run directories of a host show: their manifests, and the tombstones of runs that were removed.

What a text said is kept by its digest until the host shows it no more, so that of many old runs only the digests are
compared, by the host. A cache: it changes nothing but the time that this takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

from rlx.evidence.cache.file_digest import digest_of_files
from rlx.evidence.cache.sections import SectionWriter, load_sections
from rlx.model import Site
from rlx.runs import manifest as manifests
from rlx.runs.index import promises, tombstones
from rlx.runs.index.promises import manifest_digest
from rlx.runs.index.tombstones import Tombstone, parse_tombstone, tombstone_text
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import fetch_manifests, parse_manifest


class ShownRun(NamedTuple):
    """A run by its manifest. `digest`: of that, as in `promises`. `container_id`: of the container that it names."""

    run_id: str
    launch_id: str
    name: str
    arm: str
    seed: int
    created: float
    node: int
    container_id: str | None
    position: int
    digest: str


Said = ShownRun | Tombstone | None
"""None: nothing that this rlx can read."""


def shown_by(site: Site, home: Path) -> list[Said]:
    """Ask a site. `home`: where it is kept. Raises HostError if the site does not answer."""
    store, name, rules = ParsedFiles(home), _name(site), _rules()
    known = _kept(store, name, rules)
    same, texts = fetch_manifests(site.place, site.root, known)
    shown = {digest: known[digest] for digest in same if digest in known}
    shown |= {hashlib.sha256(text.encode()).hexdigest(): _read(text) for text in texts}
    if rules and shown != known:
        plain = {digest: _plain(said) for digest, said in shown.items()}
        SectionWriter().save(store, name, {"of": rules, "shown": plain})
    return list(shown.values())


def _read(text: str) -> Said:
    manifest = parse_manifest(text)
    if manifest is None:
        return parse_tombstone(text)
    plan, container_id = manifest.plan, manifest.plan.site.container_id
    names = (manifest.run_id, manifest.launch_id, plan.name, plan.arm, plan.seed)
    return ShownRun(*names, manifest.created_epoch, plan.node, container_id, manifest.position, manifest_digest(text))


def _name(site: Site) -> str:
    """Runs of one root are asked for at the host or in a container, and by several names."""
    return hashlib.sha256(repr(("shown", astuple(site.place), site.root)).encode()).hexdigest()[:32]


def _rules() -> str:
    """Another version of rlx would read them otherwise; empty where it has just been written."""
    return digest_of_files(str(module.__file__) for module in (manifests, promises, tombstones))


def _kept(store: ParsedFiles, name: str, rules: str) -> Mapping[str, Said]:
    kept = load_sections(store, name)
    if kept is None or not rules or kept.document.get("of") != rules:
        return {}
    return {digest: _said(plain) for digest, plain in kept.document["shown"].items()}


def _plain(said: Said) -> Any:
    return tombstone_text(said) if isinstance(said, Tombstone) else said


def _said(plain: Any) -> Said:
    return parse_tombstone(plain) if isinstance(plain, str) else plain and ShownRun(*plain)
