"""All signatures of failures against all logs: what is known, what is missed, what is a false alarm.

python benchmarks/signatures.py               print the tables; exit 1 for a miss or a false alarm
python benchmarks/signatures.py LOG…          also these, as logs of runs without a fault
python benchmarks/signatures.py --write       put the tables into docs/diagnosis.md
python benchmarks/signatures.py --check       exit 1 where docs/diagnosis.md has other ones
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlx.evidence.diagnosis import Diagnosis, Kind, Signature, signatures
from rlx.runs.judging.diagnosed import diagnose_log

REPOSITORY = Path(__file__).parent.parent
CASES = REPOSITORY / "tests" / "cases"
PAGE = REPOSITORY / "docs" / "diagnosis.md"
# What is wrong in logs that were recorded for other tests.
IN_OTHER_CASES = {
    "failed-missing-data": ["RLX870"],
    "reward-raises": ["RLX872", "RLX887"],
    "reward-raises-sometimes": ["RLX872"],
    "sabotage-zero-layers": ["RLX850"],
}


@dataclass(frozen=True, slots=True)
class Checked:
    """A log, the ids that it should give (the cause first), and those that it gives."""

    log: str
    wanted: Sequence[str]
    found: Sequence[str]

    @property
    def missed(self) -> list[str]:
        return [id for id in self.wanted if id not in self.found]

    @property
    def false(self) -> list[str]:
        return [id for id in self.found if id not in self.wanted]

    @property
    def is_right(self) -> bool:
        return list(self.wanted[:1]) == list(self.found[:1]) and not self.missed and not self.false


def main(arguments: Sequence[str]) -> int:
    page = "--write" in arguments or "--check" in arguments
    checked = [*check_cases(), *(check(Path(name), name, []) for name in arguments if not name.startswith("--"))]
    samples = [*check_samples()]
    tables = {"signatures": signature_table(), "logs": log_table(checked), "totals": totals(checked, samples)}
    if not page:
        print("\n\n".join([tables["logs"], tables["totals"]]))
    wrong = [one for one in [*checked, *samples] if not one.is_right]
    for one in wrong:
        print(
            f"wrong: {one.log}: wanted {', '.join(one.wanted) or 'nothing'}, found {', '.join(one.found) or 'nothing'}"
        )
    return int(bool(wrong) or (page and not on_page(tables, write="--write" in arguments)))


def check_cases() -> Iterator[Checked]:
    not_yet = (CASES / "diagnosis" / "not-yet.txt").read_text().split()
    for folder in sorted(folder for folder in (CASES / "diagnosis").iterdir() if folder.is_dir()):
        if folder.name in not_yet:
            continue
        expected = json.loads((folder / "expected.json").read_text())
        cause = [expected["cause"]] if expected["cause"] else []
        wanted = [*cause, *expected["symptoms"], *expected["warnings"], *expected["findings"]]
        yield check(folder / "log", folder.name, wanted)
    for folder in sorted((CASES / "logs").iterdir()):
        yield check(folder / "log", folder.name, IN_OTHER_CASES.get(folder.name, []))


def check(log: Path, name: str, wanted: Sequence[str]) -> Checked:
    return Checked(name, wanted, ids(diagnose_log(log).diagnosis))


def ids(diagnosis: Diagnosis) -> list[str]:
    hits = [*([diagnosis.cause] if diagnosis.cause else []), *diagnosis.symptoms, *diagnosis.warnings]
    return [*(hit.id for hit in hits), *(finding.id for finding in diagnosis.findings)]


def check_samples() -> Iterator[Checked]:
    """Each sample as a log of its own is known by its row; no counter-example is."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        for row in signatures():
            for text in row.samples:
                log.write_text(f"{text}\n")
                yield check(log, f"sample of {row.id}: {text[:60]}", [row.id])
            for text in row.others:
                log.write_text(f"{text}\n")
                found = [id for id in ids(diagnose_log(log).diagnosis) if id == row.id]
                yield Checked(f"counter-example of {row.id}: {text[:60]}", [], found)


def signature_table() -> str:
    rows = (
        f"| {row.id} | {_kind(row)}{row.name} | {row.meaning} | {row.fix} | {row.source} |".replace("\n", " ")
        for row in sorted(signatures(), key=lambda row: row.id)
    )
    return "\n".join(["| id | what | means | fix | source |", "|---|---|---|---|---|", *rows])


def _kind(row: Signature) -> str:
    if row.is_of_machine:
        return "*of the machine:* "
    return "" if row.kind is Kind.CAUSE else f"*{row.kind.value}:* "


def log_table(checked: Sequence[Checked]) -> str:
    rows = (
        f"| {one.log} | {', '.join(one.wanted) or '–'} | {', '.join(one.found) or '–'} | "
        f"{', '.join(one.missed) or '–'} | {', '.join(one.false) or '–'} |"
        for one in checked
    )
    return "\n".join(["| log | is in it | found | missed | false alarm |", "|---|---|---|---|---|", *rows])


def totals(checked: Sequence[Checked], samples: Sequence[Checked]) -> str:
    clean = [one for one in checked if not one.wanted]
    known = [one for one in samples if one.wanted]
    others = [one for one in samples if not one.wanted]
    lines = [
        "| what | right | wrong |",
        "|---|---|---|",
        _count(f"{len(signatures())} signatures, their samples", known),
        _count("lines that look like them", others),
        _count("logs with a fault, cause first", [one for one in checked if one.wanted]),
        _count("logs without a fault", clean),
    ]
    return "\n".join(lines)


def _count(what: str, checked: Sequence[Checked]) -> str:
    right = sum(one.is_right for one in checked)
    return f"| {what} | {right} | {len(checked) - right} |"


def on_page(tables: Mapping[str, str], *, write: bool) -> bool:
    """Whether the page has these tables, each between its two marks."""
    before = page = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        head, _, rest = page.partition(begin)
        page = f"{head}{begin}{table}{end}{rest.partition(end)[2]}"
    if write:
        PAGE.write_text(page, encoding="utf-8")
    elif page != before:
        print(f"{PAGE} is not up to date: python benchmarks/signatures.py --write")
    return write or page == before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
