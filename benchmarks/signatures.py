"""All signatures of failures against all logs: what is known, what is missed, what is a false alarm.

python -m benchmarks.signatures               print the tables; exit 1 for a miss or a false alarm
python -m benchmarks.signatures LOG…          also these, as logs of runs without a fault
python -m benchmarks.signatures --write       put the tables into docs/diagnosis.md, and docs/dev/signatures.md
python -m benchmarks.signatures --check       exit 1 where one of them has other ones
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page_tables import out_of_date, row, said
from rlx.evidence.diagnosis import Diagnosis, Signature, SignatureKind, signatures
from rlx.findings import Language, finding_row
from rlx.runs.judging.diagnose_runs import diagnose_log

REPOSITORY = Path(__file__).parent.parent
CASES = REPOSITORY / "tests" / "cases"
PAGE = "diagnosis"
TOTALS = "dev/signatures"
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
    checked = [*check_cases(), *(check(Path(name), name, []) for name in arguments if not name.startswith("--"))]
    samples = [*check_samples()]
    wrong = [one for one in [*checked, *samples] if not one.is_right]
    for one in wrong:
        print(
            f"wrong: {one.log}: wanted {', '.join(one.wanted) or 'nothing'}, found {', '.join(one.found) or 'nothing'}"
        )
    if not {"--write", "--check"} & {*arguments}:
        print("\n\n".join(tables(checked, samples).values()))
        return int(bool(wrong))
    write = "--write" in arguments
    stale = out_of_date(PAGE, lambda language: {"signatures": signature_table(language)}, write=write)
    stale += out_of_date(TOTALS, lambda _: tables(checked, samples), write=write)
    for path in stale:
        print(f"{path} is not up to date: python -m benchmarks.signatures --write")
    return int(bool(wrong or stale))


def tables(checked: Sequence[Checked], samples: Sequence[Checked]) -> dict[str, str]:
    return {"logs": log_table(checked), "totals": totals(checked, samples)}


def check_cases() -> Iterator[Checked]:
    not_yet = (CASES / "diagnosis" / "not-yet.txt").read_text(encoding="utf-8").split()
    for folder in sorted(folder for folder in (CASES / "diagnosis").iterdir() if folder.is_dir()):
        if folder.name in not_yet:
            continue
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
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
        for each in signatures():
            for text in each.samples:
                log.write_text(f"{text}\n", encoding="utf-8")
                yield check(log, f"sample of {each.id}: {text[:60]}", [each.id])
            for text in each.others:
                log.write_text(f"{text}\n", encoding="utf-8")
                found = [id for id in ids(diagnose_log(log).diagnosis) if id == each.id]
                yield Checked(f"counter-example of {each.id}: {text[:60]}", [], found)


def signature_table(language: str) -> str:
    rows = (_signature(each, language) for each in sorted(signatures(), key=lambda each: each.id))
    return "\n".join([_head(("id", "what", "means", "fix", "source"), language), "|---|---|---|---|---|", *rows])


def _signature(each: Signature, language: str) -> str:
    known = finding_row(each.id)
    text = known.text(Language(language))
    return row(each.id, f"{said(PAGE, _kind(each), language)}{text.title}", text.reason, text.fix, known.source)


def _head(names: Sequence[str], language: str) -> str:
    return row(*(said(PAGE, name, language) for name in names))


def _kind(each: Signature) -> str:
    if each.is_of_machine:
        return "*of the machine:* "
    return "" if each.kind is SignatureKind.CAUSE else f"*{each.kind.value}:* "


def log_table(checked: Sequence[Checked]) -> str:
    rows = (row(one.log, *map(_listed, (one.wanted, one.found, one.missed, one.false))) for one in checked)
    head = row("log", "is in it", "found", "missed", "false alarm")
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def _listed(found: Sequence[str]) -> str:
    return ", ".join(found) or "–"


def totals(checked: Sequence[Checked], samples: Sequence[Checked]) -> str:
    known = [one for one in samples if one.wanted]
    parts = {
        f"{len(signatures())} signatures, their samples": known,
        "lines that look like them": [one for one in samples if not one.wanted],
        "logs with a fault, cause first": [one for one in checked if one.wanted],
        "logs without a fault": [one for one in checked if not one.wanted],
    }
    rows = (_count(what, of_it) for what, of_it in parts.items())
    return "\n".join([row("what", "right", "wrong"), "|---|---|---|", *rows])


def _count(what: str, checked: Sequence[Checked]) -> str:
    right = sum(one.is_right for one in checked)
    return row(what, right, len(checked) - right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
