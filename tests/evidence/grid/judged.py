"""What rlx says of an edited run, as its users hear it: the verdict, and what `rlx compare` says of the pair."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rlx
from rlx.evidence import VerdictStatus
from rlx.model import Finding, Severity
from tests.conftest import CASES
from tests.evidence.grid.cases import EditedRun
from tests.evidence.grid.run_pair import place_pair
from tests.evidence.test_cases import verdict_of

NOT_COMPARABLE, WARNED = "not comparable", "warned"
_ORDER = tuple(VerdictStatus)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was said: the status, whether numbers are struck, the ids but for notes, and the sentence."""

    status: str
    struck: bool
    ids: tuple[str, ...]
    sentence: str

    @property
    def is_accused(self) -> bool:
        return self.status != VerdictStatus.VALID or self.struck


def outcome_of(run: EditedRun, folder: Path) -> Outcome:
    """Judge an edited run below an empty folder."""
    if run.edit is None:
        return _of_folder(run.name, folder)
    with places(folder):
        pair = place_pair(run.base)
        run.edit(pair)
        pair.write()
        return outcome_of_pair()


def _of_folder(name: str, folder: Path) -> Outcome:
    verdict, _ = verdict_of(CASES / "evidence" / name, folder)
    return Outcome(verdict.status, verdict.dissent, _ids(verdict.findings), verdict.sentence)


def outcome_of_pair() -> Outcome:
    """The worse of both verdicts; where both are valid, what speaks against comparing them."""
    compared = rlx.compare("baseline", "aqn")
    verdicts = sorted((run.verdict for run in compared.runs), key=lambda verdict: _ORDER.index(verdict.status))
    findings = [finding for contrast in compared.comparison.contrasts for finding in contrast.findings]
    status = str(verdicts[0].status)
    if status == VerdictStatus.VALID:
        worst = {finding.severity for finding in findings}
        status = NOT_COMPARABLE if Severity.ERROR in worst else WARNED if Severity.WARNING in worst else status
    every = [*(finding for verdict in verdicts for finding in verdict.findings), *findings]
    return Outcome(status, not compared.reportable, _ids(every), verdicts[0].sentence)


def _ids(findings: list[Finding] | tuple[Finding, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.id for finding in findings if finding.severity is not Severity.NOTE))


@contextmanager
def places(folder: Path) -> Iterator[None]:
    """Let rlx know no other runs than those of this folder."""
    names = {"RLX_HOME": "home", "RLX_CONFIG": "config", "RLX_ROOT": "root", "RLX_LEASES": "leases"}
    wanted = {name: str(folder / place) for name, place in names.items()} | {"RLX_PROJECT": os.devnull}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
