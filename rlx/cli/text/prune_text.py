"""Say what `rlx prune` would delete, what stays, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.prune_choice import Item, Kept
    from rlx.api.pruning import Prunable, Pruned

_NAMED = 6


def found_lines(found: Prunable) -> Iterator[str]:
    """A line for each thing that would go, then each that stays although it fits."""
    for item in found.items:
        yield f"{item.what}  {item.run_id}  {item.host}  {size_text(item.bytes)}{_more(item)}"
    for host, size in found.trash.items():
        yield f"trash  {host}  {size_text(size)}  (half deleted by an earlier call)"
    yield from (f"stays: {kept_text(each)}" for each in found.kept)


def _more(item: Item) -> str:
    names = ", ".join(item.names[:_NAMED]) + (f" and {len(item.names) - _NAMED} more" * (len(item.names) > _NAMED))
    said = "; ".join(filter(None, (names, item.note)))
    return f"  ({said})" if said else ""


def kept_text(kept: Kept) -> str:
    """`checkpoints of tiny-aqn-s1-…: it is running`."""
    return f"{kept.what} of {kept.run_id}: {kept.why}"


def total_text(found: Prunable) -> str:
    """`3 things, 1.2 GiB`."""
    count = len(found.items) + len(found.trash)
    return f"{count} thing{'s' * (count != 1)}, {size_text(found.bytes)}"


def size_text(count: int) -> str:
    """Bytes with the unit that makes them short: `512 KiB`, `1.2 GiB`."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.1f} {units[0]}" if size < 10 and units[0] != "B" else f"{size:.0f} {units[0]}"


def pruned_document(done: Pruned, *, dry_run: bool) -> Mapping[str, Any]:
    """All of it as JSON, sizes in bytes."""
    return {
        "dry_run": dry_run,
        "found": done.found.items,
        "kept": done.found.kept,
        "trash": done.found.trash,
        "bytes": done.found.bytes,
        "deleted": done.deleted,
        "freed": done.freed,
        "failures": done.failures,
        "skewed": done.found.skewed,
    }
