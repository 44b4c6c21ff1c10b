"""The known failures, one row of TOML each; those of one back-end's code in its folder `diagnosis`.

The row of its `id` in the table of findings (rlx/findings/) says what it means. A row has a `kind`, a `pattern` for one
line without colours, speakers and time stamps, and fixed texts (`needles`), one of which each such line contains: the
log is searched for those. `within`: what the traceback of the line must contain, with no code of the user below it, for
texts that are not specific; where the pattern has a group `inner`, only what matches in it needs that. `samples` are
lines that it must match, `others` lines that it must not. `is_of_machine`: the machine ended the run, whatever its
recipe: a full disk, a port, a network, a device in use. Memory is never included, because the run itself may have
filled it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from rlx.backends.registry import folders
from rlx.findings import free_id, require_row

_FOLDER = Path(__file__).with_name("rows")
# Exceptions that no row knows; their own lines name them, in Python and in C++. Some are not called an error.
_EXCEPTIONS = ("Error", "Exception", "KeyboardInterrupt", "terminate called after throwing", "what():")
_OF_A_MODULE = "[a-z0-9_][.][A-Z][A-Za-z0-9_]*: "
_SPECIAL = re.compile(r"[\\.*+?(){}|$[]")


class SignatureKind(StrEnum):
    """cause: ends a run. symptom: follows from something else. warning: the run continues, maybe with worse results."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Signature:
    id: str
    kind: SignatureKind
    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    samples: tuple[str, ...]
    others: tuple[str, ...]
    within: re.Pattern[str] | None = None
    is_of_machine: bool = False

    def knows(self, line: str) -> bool:
        return self._match(line) is not None

    def wants_traceback(self, line: str) -> bool:
        """Tell whether this line matches only if its traceback contains what `within` requires."""
        found = self._match(line) if self.within is not None else None
        return found is not None and found.groupdict().get("inner", line) is not None

    def _match(self, line: str) -> re.Match[str] | None:
        return self.pattern.search(line) if any(needle in line for needle in self.needles) else None


def signatures() -> tuple[Signature, ...]:
    """Return all rows, the specific before the general: the first that matches a line names it."""
    return _signatures((_FOLDER, *folders("diagnosis")))


@cache
def _signatures(folders: tuple[Path, ...]) -> tuple[Signature, ...]:
    """Read the rows in the order of the names of their files, whatever their folder."""
    import tomllib

    paths = sorted((path for folder in folders for path in folder.glob("*.toml")), key=lambda path: path.name)
    found: dict[str, Signature] = {}
    for path in paths:
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["signature"]:
            require_row(row["id"])
            if row["id"] in found:
                raise ValueError(f"{path}: {row['id']} is the id of another signature: take {free_id(row['id'])}")
            found[row["id"]] = _signature(**row)
    return tuple(found.values())


def _signature(
    *,
    id: str,
    kind: str,
    pattern: str,
    needles: list[str],
    samples: list[str],
    others: list[str],
    within: str = "",
    is_of_machine: bool = False,
) -> Signature:
    return Signature(
        id=id,
        kind=SignatureKind(kind),
        pattern=re.compile(pattern),
        needles=tuple(needles),
        samples=tuple(samples),
        others=tuple(others),
        within=re.compile(within) if within else None,
        is_of_machine=is_of_machine,
    )


def causes_of_machine() -> frozenset[str]:
    """Return the ids of causes in the machine, whatever the recipe of the run."""
    return frozenset(row.id for row in signatures() if row.is_of_machine)


def needle_pattern() -> str:
    """Return an extended regular expression for grep and awk that selects the lines to be checked."""
    return _needle_pattern(signatures())


@cache
def _needle_pattern(rows: tuple[Signature, ...]) -> str:
    needles = {needle for row in rows for needle in row.needles}
    # A text that contains another one need not be searched for itself.
    needles = {
        one for one in {*needles, *_EXCEPTIONS} if not any(two in one for two in {*needles, *_EXCEPTIONS} - {one})
    }
    return "|".join(
        [*(_SPECIAL.sub(lambda found: f"[{found[0]}]", needle) for needle in sorted(needles)), _OF_A_MODULE]
    )
