"""A comparison says the same whether its runs were judged before or not, and what changed since is judged anew."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.errors import ExitCode
from rlx.evidence.cache import file_digest as digest
from tests.compare.conftest import Said
from tests.compare.run_dirs import CONTROL, SILENT, TREATMENT

RunsOf = Callable[..., None]


@pytest.fixture(autouse=True)
def _files_are_settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "SETTLED_S", -3600.0)


def parsed() -> Path:
    return Path(os.environ["RLX_HOME"], "parsed")


def run_dir(arm: str) -> Path:
    (found,) = Path(os.environ["RLX_ROOT"], "runs").glob(f"*-{arm}-*")
    return found


def ids_of_treatment(document: str) -> set[str]:
    return {finding["id"] for finding in json.loads(document)["treatments"][0]["verdict"]["findings"]}


@pytest.mark.parametrize("treatment", [TREATMENT, SILENT])
def test_the_same_answer_cold_and_warm(runs_of: RunsOf, say: Said, treatment: object) -> None:
    runs_of(CONTROL, treatment)
    names = "baseline", treatment.arm  # type: ignore[attr-defined]
    cold = say(*names, as_json=True)
    kept = {path.name: path.stat().st_ino for path in parsed().iterdir()}
    assert len(kept) > 4
    assert say(*names, as_json=True) == cold
    assert {path.name: path.stat().st_ino for path in parsed().iterdir()} == kept
    shutil.rmtree(parsed())
    assert say(*names, as_json=True) == cold


def test_another_end_is_another_verdict(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    assert say("baseline", "fast")[0] is ExitCode.OK
    end = run_dir("fast") / "attempts" / "1" / "state" / "exit"
    end.write_text(end.read_text(encoding="utf-8").replace("0 leader", "1 leader"), encoding="utf-8")
    code, text = say("baseline", "fast", as_json=True)
    assert code is ExitCode.NOT_VERIFIED
    assert json.loads(text)["treatments"][0]["state"] == "failed"


def test_another_promise_is_another_verdict(runs_of: RunsOf, say: Said) -> None:
    """Only the manifest changes, which is no evidence."""
    runs_of(CONTROL, TREATMENT)
    assert say("baseline", "fast")[0] is ExitCode.OK
    manifest = run_dir("fast") / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["plan"]["expectations"]["total_steps"] = 7
    manifest.write_text(json.dumps(document), encoding="utf-8")
    assert "RLX706" in ids_of_treatment(say("baseline", "fast", as_json=True)[1])


def test_another_log_is_another_verdict(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    assert say("baseline", "fast")[0] is ExitCode.OK
    for name in ("log", "metrics.jsonl"):
        path = run_dir("fast") / "attempts" / "1" / name
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:-1]), encoding="utf-8")
    code, text = say("baseline", "fast", as_json=True)
    assert code is ExitCode.NOT_VERIFIED
    assert "RLX701" in ids_of_treatment(text)


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "text", "folder"])
def test_damage_changes_no_answer(runs_of: RunsOf, say: Said, damage: str) -> None:
    runs_of(CONTROL, TREATMENT)
    whole = say("baseline", "fast", as_json=True)
    for path in parsed().iterdir():
        data = bytearray(path.read_bytes())
        if damage == "folder":
            path.unlink()
            path.mkdir()
            continue
        data[len(data) // 2] ^= 1
        path.write_bytes({"empty": b"", "short": data[:-9], "flipped": data, "text": b"x" * 99}[damage])
    assert say("baseline", "fast", as_json=True) == whole
