"""The share of the validation that stands in the training data, as a host tells it before a launch."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.hosts import local_site, transport_for
from rlx.model import Finding, Severity
from rlx.planning.host_query import findings_of, query_site
from rlx.planning.host_requirements import HostRequirements, requirements_of
from rlx.recipe import load_recipe

RECIPE = """\
version: 1
name: near
backend: {{kind: verl, version: "0.7.1", python: {python}}}
model: {{path: /nowhere}}
data: {{train: {train}, val: {val}, train_rows: 100, val_rows: 10, max_prompt_tokens: 16, max_response_tokens: 16}}
reward: gsm8k
train: {{batch_size: 4, mini_batch_size: 4, micro_batch_size: 2, lr: 1.0e-6}}
rollout: {{n: 2, log_prob_micro_batch_size: 2}}
layout: {{device: cpu}}
{waive}
"""


def row(number: int, words: str = "") -> dict[str, object]:
    prompt = [{"role": "user", "content": f"Are {number + 100} apples in box {number * 31337} enough?{words}"}]
    return {"prompt": prompt, "reward_model": {"ground_truth": str(number + 1)}, "data_source": "openai/gsm8k"}


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
        return path
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def wanted(train: Path, val: Path, python: str = sys.executable, waive: str = "") -> HostRequirements:
    recipe = train.parent / "recipe.yaml"
    recipe.write_text(RECIPE.format(python=python, train=train, val=val, waive=waive), encoding="utf-8")
    file = load_recipe(recipe)
    return requirements_of([file.resolve(arm) for arm in file.arms])


def found(asked: HostRequirements) -> list[Finding]:
    site = local_site()
    findings = findings_of(query_site(transport_for(site.place), site, asked))
    return [finding for finding in findings if finding.id in ("RLX023", "RLX024")]


@pytest.mark.long
@pytest.mark.parametrize(("form", "words"), [("parquet", ""), ("jsonl", " Think first.")])
@pytest.mark.parametrize(("shared", "severity"), [(0, None), (1, Severity.WARNING), (8, Severity.ERROR)])
def test_the_share_decides(tmp_path: Path, shared: int, severity: Severity | None, form: str, words: str) -> None:
    train = write(tmp_path / f"train.{form}", [row(number) for number in range(100)])
    val = write(tmp_path / f"val.{form}", [row(100 - shared + number, words) for number in range(10)])
    findings = found(wanted(train, val))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    if findings:
        assert f"{shared} of 10 " in findings[0].message and f"{shared * 10}%" in findings[0].message


def test_what_a_recipe_accepts_is_not_measured(tmp_path: Path) -> None:
    path = write(tmp_path / "one.jsonl", [row(number) for number in range(10)])
    asked = wanted(path, path, waive="waive: {RLX024: a task to memorise}")
    assert asked.pairs == () and found(asked) == []


@pytest.mark.long
def test_files_that_cannot_be_read_or_are_not_there(tmp_path: Path) -> None:
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"PAR1 and no more")
    good = write(tmp_path / "good.parquet", [row(1)])
    (finding,) = found(wanted(torn, good))
    assert (finding.id, finding.severity) == ("RLX023", Severity.NOTE)
    assert found(wanted(tmp_path / "missing.parquet", good)) == []


def test_a_python_without_pyarrow(tmp_path: Path) -> None:
    path = write(tmp_path / "one.parquet", [row(1)])
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n', encoding="utf-8")
    python.chmod(0o700)
    (finding,) = found(wanted(path, path, str(python)))
    assert finding.id == "RLX023" and "pyarrow" in finding.message


@pytest.mark.long
@pytest.mark.parametrize(("seconds", "rows", "why"), [(20, 50, "50 rows"), (1, 10**9, "1 s")])
def test_much_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, rows: int, why: str
) -> None:
    monkeypatch.setattr("rlx.planning.probing.training_environment.OVERLAP_S", seconds)
    monkeypatch.setattr("rlx.planning.probing.training_environment.OVERLAP_ROWS", rows)
    many = write(tmp_path / "many.jsonl", [row(number) for number in range(60 if rows == 50 else 200_000)])
    (finding,) = found(replace(wanted(many, many), devices=0))
    assert finding.id == "RLX023" and why in finding.message
