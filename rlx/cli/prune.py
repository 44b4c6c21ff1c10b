"""rlx prune: delete files of old runs, after showing them with their sizes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import HOST_LIST, HOSTS, RUNS, parse_age
from rlx.cli.frame.output import narrate, patience, print_json, print_text
from rlx.errors import ExitCode, RlxError
from rlx.evidence.verdict import counted

if TYPE_CHECKING:
    from rlx.api.pruning import Item, Kept, Prunable, Pruned

_Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="Only these: arm, run name or id. Default: all.", autocompletion=RUNS),
]
_Keep = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Keep the newest N launches of a recipe, or checkpoints of a run."),
]
_Host = Annotated[str | None, typer.Option(metavar=HOST_LIST, help="Only runs on these hosts.", autocompletion=HOSTS)]
_NAMED = 6


def prune(
    names: _Runs = None,
    what: Annotated[
        str, typer.Option(metavar="WHAT,...", help="mirrors (copies on this machine), runs, checkpoints.")
    ] = "mirrors",
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only of runs that ended at least this long ago: 12h, 30d.")
    ] = None,
    keep: _Keep = None,
    host: _Host = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object; with -y or --dry-run.")] = False,
) -> None:
    """Delete files of old runs, after showing them with their sizes.

    Only what rlx made, of runs that have ended. A run directory leaves a record, as with `rlx rm`. The last checkpoint
    of a run stays unless --keep is 0. Evidence of a registered experiment, what others launched, and the only copy of a
    run are deleted only where their whole id is typed. Ages are measured by the clock of each host; where that is off
    by more than a minute, --older-than deletes nothing. Exit code 1 if something could not be deleted.
    """
    from rlx.api.pruning import Pruned, delete_found, find_prunable

    with patience("querying the hosts …"):
        found = find_prunable(
            names or None,
            what=what.split(","),
            older_than_s=parse_age(older_than) if older_than else None,
            keep=keep,
            host=host,
        )
    if not as_json:
        _show(found)
    if dry_run or not (found.items or found.trash):
        done = Pruned(found)
    else:
        if not yes:
            _confirm(found)
        done = delete_found(found)
        if not as_json:
            _tell(done)
    if as_json:
        print_json(pruned_document(done, dry_run=dry_run))
    if done.failures or found.skewed:
        raise typer.Exit(ExitCode.ERROR)


def _show(prunable: Prunable) -> None:
    from rlx.hosts.clock import SET_CLOCK

    if prunable.items or prunable.trash:
        print_text(f"to delete: {total_text(prunable)}")
    for line in found_lines(prunable):
        print_text(f"  {line}")
    for host, skew in prunable.skewed.items():
        narrate(f"NOT deleted by age: RLX515 {host}: the clock is {skew}")
        narrate(f"  fix: {SET_CLOCK}; or name runs without --older-than")
    if not (prunable.items or prunable.trash):
        narrate("nothing to delete")


def found_lines(prunable: Prunable) -> Iterator[str]:
    """Yield a line per item to delete, then those that match but stay."""
    for item in prunable.items:
        yield f"{item.what}  {item.run_id}  {item.host}  {size_text(item.bytes)}{_more(item)}"
    for host, size in prunable.trash.items():
        yield f"trash  {host}  {size_text(size)}  (partly deleted by an earlier call)"
    yield from (f"stays: {kept_text(each)}" for each in prunable.kept)


def _more(item: Item) -> str:
    names = ", ".join(item.names[:_NAMED]) + (f" and {len(item.names) - _NAMED} more" * (len(item.names) > _NAMED))
    said = "; ".join(filter(None, (names, item.note)))
    return f"  ({said})" if said else ""


def _confirm(prunable: Prunable) -> None:
    if not sys.stdin.isatty():
        raise RlxError(f"this would delete {total_text(prunable)}", "-y deletes them; --dry-run only shows them")
    typer.confirm(f"Delete {total_text(prunable)}?", abort=True, err=True)


def _tell(done: Pruned) -> None:
    for failure in done.failures:
        narrate(f"NOT deleted: {kept_text(failure)}")
    print_text(f"freed {size_text(done.freed)}")


def kept_text(kept: Kept) -> str:
    """Return `checkpoints of tiny-aqn-s1-…: it is running`."""
    return f"{kept.what} of {kept.run_id}: {kept.why}"


def total_text(prunable: Prunable) -> str:
    """Return `3 items, 1.2 GiB`."""
    return f"{counted(len(prunable.items) + len(prunable.trash), 'item')}, {size_text(prunable.bytes)}"


def size_text(count: int) -> str:
    """Return bytes in the unit that makes them short: `512 KiB`, `1.2 GiB`."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.1f} {units[0]}" if size < 10 and units[0] != "B" else f"{size:.0f} {units[0]}"


def pruned_document(done: Pruned, *, dry_run: bool) -> Mapping[str, Any]:
    """Return all of it for --json, sizes in bytes."""
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
