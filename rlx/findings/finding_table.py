"""Read the table of findings: one row for each id, in English and Chinese, for the code, `rlx explain` and the pages.

The rows are in this folder and in `findings/` of each back-end's folder; a file is a section of docs/verdicts.md, and
`failures` are those of docs/diagnosis.md. Whether an id exists is read from the headings of the rows alone, and a row
is parsed when it is used: to parse all of them takes as long as a whole `rlx status`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from rlx.backends.registry import folders, packages
from rlx.plug_ins import warn

VERDICTS = "verdicts"
"""The section whose rows are the words of verdicts, in place of ids."""
_OWN = Path(__file__).parent
_RLX = _OWN.parent
_WANTED = ("title", "reason", "fix")
_NUMBERS = ("modules", "since", "changed")
_OF_RULES = ("refused_by", "refused_at")


class Language(StrEnum):
    EN = "en"
    ZH = "zh"


def reader_language() -> Language:
    """Return the language in which a person reads findings: RLX_LANG, else the locale; English unless it is Chinese.

    The order of the variables of the locale: POSIX.1-2017, Base Definitions, 8.2.
    """
    given = (os.environ.get(name, "") for name in ("RLX_LANG", "LC_ALL", "LC_MESSAGES", "LANG"))
    return Language.ZH if next(filter(None, given), "").lower().startswith("zh") else Language.EN


@dataclass(frozen=True, slots=True)
class FindingText:
    """A finding in one language: what it is, why it matters, what to do.

    Of a rule on recipes also what refuses such a recipe where rlx does not, and where, or what happens if nothing does.
    """

    title: str
    reason: str
    fix: str
    refused_by: str = ""
    refused_at: str = ""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """`source`: where the fact comes from; "" where it is rlx's own. `modules`: how many of them name the id.

    `since`, `changed`: the versions of the rules (rlx/model/verdict_rules.py) that made it first, and of other runs
    than before.
    """

    id: str
    section: str
    en: FindingText
    zh: FindingText
    source: str = ""
    modules: int = 1
    since: int = 1
    changed: int = 1

    def text(self, language: Language = Language.EN) -> FindingText:
        return self.zh if language is Language.ZH else self.en


def require_row(id: str) -> None:
    """Raise ValueError for an id that has no row."""
    if id not in _blocks(tuple(packages().values())):
        raise ValueError(f"{id} has no row in the table of findings: add one to a file of rlx/findings/")


def finding_row(id: str) -> FindingRow:
    """Parse the row of an id, or of the word of a verdict. Raises ValueError where it lacks a part."""
    require_row(id)
    return _rows(tuple(packages().values()), id)


def finding_ids() -> list[str]:
    """List all ids, sorted."""
    return sorted(id for id, (path, _) in _blocks(tuple(packages().values())).items() if path.stem != VERDICTS)


def section_rows(section: str) -> list[FindingRow]:
    """Parse the rows of a section, from all places, by id; the words of verdicts as they are ordered in their file."""
    blocks = _blocks(tuple(packages().values()))
    ids = [id for id, (path, _) in blocks.items() if path.stem == section]
    return [finding_row(id) for id in (ids if section == VERDICTS else sorted(ids))]


def free_id(id: str) -> str:
    """Return the next id that is not taken."""
    numbers = range(int(id.removeprefix("RLX")) + 1, 1000)
    taken = finding_ids()
    return next((free for free in (f"RLX{number:03}" for number in numbers) if free not in taken), "in another range")


@cache
def _blocks(packages: tuple[str, ...]) -> Mapping[str, tuple[Path, str]]:
    """Id -> the file and the text of its row."""
    found: dict[str, tuple[Path, str]] = {}
    for path in (path for folder in (_OWN, *folders("findings")) for path in sorted(folder.glob("*.toml"))):
        # No value of a row takes more than a line.
        for block in f"\n{path.read_text(encoding='utf-8')}".split("\n[")[1:]:
            id, _, text = block.partition("]\n")
            if id not in found:
                found[id] = (path, text)
                continue
            problem = f"{id} has two rows, in {found[id][0]} and in {path}: give one of them a free id"
            if path.is_relative_to(_RLX):
                raise ValueError(problem)
            # A row of another distribution costs that row alone.
            warn(str(path), problem)
    return found


@cache
def _rows(packages: tuple[str, ...], id: str) -> FindingRow:
    import tomllib

    path, text = _blocks(packages)[id]
    try:
        return _parsed(id, path.stem, tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError) as problem:
        raise ValueError(f"{path}: the row of {id}: {problem}") from None


def _parsed(id: str, section: str, values: dict[str, Any]) -> FindingRow:
    chinese = values.pop("zh", {})
    source, numbers = values.pop("source", ""), {name: values.pop(name, 1) for name in _NUMBERS}
    wanted = {*_WANTED, *(_OF_RULES if {*_OF_RULES} & {*values, *chinese} else ())}
    if problems := [*_misfits(values, wanted, ""), *_misfits(chinese, wanted, "zh.")]:
        raise ValueError("; ".join(problems))
    return FindingRow(id, section, FindingText(**values), FindingText(**chinese), source, **numbers)


def _misfits(values: dict[str, Any], wanted: set[str], prefix: str) -> Iterator[str]:
    in_chinese = ", in Chinese" if prefix else ""
    yield from (f"write {prefix}{name}{in_chinese}" for name in sorted(wanted) if not values.get(name))
    yield from (f"{prefix}{name} is no part of a row" for name in sorted(values.keys() - wanted))
