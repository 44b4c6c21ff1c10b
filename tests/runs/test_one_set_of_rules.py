"""What the metrics of a training show is one answer: of diagnose for a file and for a run, of import, and of status."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx as api
from rlx.errors import UsageError
from rlx.model import Finding
from rlx.runs import Index
from rlx.runs.judging.diagnose_runs import diagnose_log, diagnose_runs
from tests.cli.support import rlx
from tests.conftest import CASES, REPOSITORY
from tests.runs.toys import home
from tests.wording import settled

OF_THE_METRICS = {"RLX654", "RLX655", "RLX656", "RLX791", *(f"RLX{number}" for number in range(893, 899))}
# The logs of the repository in which the metrics of a training went wrong; all others are to yield nothing.
WRONG = {
    "cases/console/mindspeed-rl-by-its-source/log": {"RLX654"},
    "cases/console/verl-0.2-issue-316/log": {"RLX655"},
    "cases/diagnosis/collapse-30b/log": {"RLX894", "RLX895"},
    "cases/diagnosis/nan-before-a-device-assert/log": {"RLX654", "RLX893"},
    "cases/diagnosis/nan-in-the-reward/log": {"RLX654"},
    "cases/diagnosis/nothing-trained/log": {"RLX655"},
}


def of_metrics(findings: Iterable[Finding]) -> set[Finding]:
    return {finding for finding in findings if finding.id in OF_THE_METRICS}


def logs_of_the_repository(unpacked: Path) -> dict[str, Path]:
    """Every console log among the cases, and those in the bundles of the documentation."""
    found = {str(path.relative_to(CASES.parent)): path for path in sorted(CASES.rglob("log")) if path.is_file()}
    for bundle in sorted((REPOSITORY / "docs/example-ab").glob("*.tar.gz")):
        with tarfile.open(bundle) as archive:
            archive.extractall(unpacked / bundle.name, filter="data")
        for path in sorted((unpacked / bundle.name).rglob("log")):
            found[str(path.relative_to(unpacked))] = path
    return found


def test_every_log_of_the_repository_gets_one_answer(tmp_path: Path) -> None:
    logs = logs_of_the_repository(tmp_path / "bundles")
    taken = {}
    for number, (name, path) in enumerate(logs.items()):
        try:
            taken[name] = api.import_logs(path, f"log-{number}").ref
        except UsageError:  # it says nothing of a run
            continue
    runs = dict(zip(taken, diagnose_runs(Index(home()), [*taken.values()]), strict=True))
    wrong = {}
    for name, found in runs.items():
        assert found.row is not None
        of_file = of_metrics(diagnose_log(logs[name]).diagnosis.findings)
        assert of_file == of_metrics(found.diagnosis.findings) == of_metrics(found.row.verdict.findings), name
        wrong |= {name: {finding.id for finding in of_file}} if of_file else {}
    assert wrong == WRONG
    assert len(runs) > 100 and any(name.startswith("equivalence.tar.gz") for name in runs)


def sound_log() -> str:
    """A recorded run of 20 steps, without noise."""
    return (CASES / "logs/tiny-baseline/log").read_text(encoding="utf-8")


def setting(key: str, value: str, since: int = 1) -> Callable[[str], str]:
    """Write another value of a metric into each step from that one on."""

    def edit(text: str) -> str:
        def line(found: re.Match[str]) -> str:
            if int(found[1]) < since:
                return found[0]
            changed, count = re.subn(rf"( - {re.escape(key)}:)[^ ]+", rf"\g<1>{value}", found[0])
            assert count == 1
            return changed

        return re.sub(r"step:(\d+) - .*", line, text)

    return edit


@pytest.mark.parametrize(
    ("edit", "expected", "code"),
    [
        (lambda text: text, set(), 0),
        (setting("critic/rewards/mean", "nan", 12), {"RLX654"}, 14),
        (setting("critic/score/mean", "inf", 20), {"RLX654"}, 14),
        (setting("actor/pg_loss", "nan", 12), {"RLX654"}, 14),
        (setting("actor/entropy", "nan", 12), {"RLX893"}, 0),
        (setting("actor/grad_norm", "0.0"), {"RLX655"}, 14),
        (setting("actor/grad_norm", "0.0", 2), {"RLX791"}, 14),
        (setting("actor/grad_norm", "0.0", 17), set(), 0),
        (setting("actor/lr", "0.0"), {"RLX655"}, 14),
    ],
)
def test_an_edited_log_is_told_alike_in_every_form(
    edit: Callable[[str], str], expected: set[str], code: int, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    log = tmp_path / "run.log"
    log.write_text(edit(sound_log()), encoding="utf-8")
    run = rlx("import", str(log), "--name", "edited").stdout.split()[0]
    for name, exits in ((str(log), 0), (run, code)):
        (found,) = json.loads(rlx("diagnose", name, "--json", code=exits).stdout)["runs"]
        findings = {finding["id"]: finding["fix"] for finding in found["findings"]}
        assert set(findings) & OF_THE_METRICS == expected and found["cause"] is None
        text, marked = rlx("diagnose", name, code=exits).stdout, rlx("diagnose", name, "--md", code=exits).stdout
        for form in (text, marked):
            assert set(re.findall(r"RLX\d+", form)) & OF_THE_METRICS == expected
            assert expected or settled(form, {name: "name"}) == wording
        assert all(fix in " ".join(text.split()) and fix in marked for fix in findings.values())
    shown = rlx("status", run, "-v").stdout
    assert set(re.findall(r"RLX\d+", shown)) & OF_THE_METRICS == expected


def test_numbers_that_were_lost_go_before_the_exception_that_they_led_to(tmp_path: Path) -> None:
    lost = CASES / "diagnosis/nan-before-a-device-assert/log"
    sound = tmp_path / "sound.log"
    sound.write_text(lost.read_text(encoding="utf-8").replace(":nan", ":0.02"), encoding="utf-8")
    run = rlx("import", str(lost), "--name", "lost").stdout.split()[0]
    for name, code in ((str(lost), 0), (run, 14)):
        for form in ((), ("--md",)):
            said = rlx("diagnose", name, *form, code=code).stdout
            assert said.index("RLX654") < said.index("RLX958") < said.index("RLX893") and said.count("fix") >= 3
    assert re.findall(r"RLX\d+", rlx("diagnose", str(sound)).stdout) == ["RLX958"]


def test_nothing_trained_goes_behind_the_exception_that_ended_the_run(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    ended = 'Traceback (most recent call last):\n  File "/me/a.py", line 3, in f\nKeyError: "hard"\n'
    log.write_text(setting("actor/grad_norm", "0.0")(sound_log()) + ended, encoding="utf-8")
    said = rlx("diagnose", str(log)).stdout
    assert said.index("RLX889") < said.index("RLX655")
